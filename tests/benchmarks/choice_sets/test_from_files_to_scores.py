"""Tests PMC-VQA, OmniMedVQA, MedXpertQA and MMMU from their files to scores, with a nano model on CPU."""

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.eval.scoring.reply_rules import TITLE
from medtune.trainer.commands.cli import main
from tests.examples import write_example

EVERY = (
    ("pmc_vqa", "pmc_vqa_2", 24), ("omnimedvqa", "omnimedvqa", 18), ("pmc_vqa", "pmc_vqa_clean", 24),
    ("medxpertqa_mm", "medxpertqa_mm", 12), ("mmmu_med", "mmmu_med", 25), ("mmmu_med", "mmmu_med_test", 25),
)  # fmt: skip


@pytest.mark.parametrize(
    ("benchmark", "source", "questions"),
    [EVERY[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in EVERY[1:])],
)
def test_from_released_files_to_scores(
    benchmark: str, source: str, questions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    write_example(source, raw)
    assert main(["prepare", benchmark, "--source", source, "--from", str(raw), "--out", str(out)]) == 0
    settings = [
        f"data.benchmark={benchmark}", f"data.root={out}", "log.wandb=disabled", "eval.readings=[generation]",
        "eval.conditions=[image,text_only]", "eval.max_new_tokens=4", "model.answer_format=letter",
    ]  # fmt: skip
    # A set for evaluation alone has no training questions, which `validate` says.
    is_trainable = not find_source(source).test_only
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings]) == (0 if is_trainable else 1)
    assert ("is for evaluation alone" in capsys.readouterr().err) != is_trainable
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    found = json.loads((run / "results.json").read_text("utf-8"))["phases"]["zero_shot"]
    assert found["overall"]["n"] == questions
    assert set(found["metrics"]) == {"image", "text_only"}
    scores = json.loads((run / "zero_shot" / "scores.json").read_text("utf-8"))
    (rules,) = (table for table in scores["tables"] if table["title"] == TITLE)
    assert len(rules["rows"]) >= 2
    assert all(0 <= row[1] <= 1 for row in rules["rows"])
