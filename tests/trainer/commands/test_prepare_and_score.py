"""prepare, validate, list, show and score, as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("recipes", "pocket_busi_lora"),
        ("models", "pocket"),
        ("benchmarks", "busi"),
        ("metrics", "accuracy"),
        ("sources", "fetal_heads"),
    ],
)
def test_list_shows_names_with_their_first_line(kind: str, name: str, capsys: Capture) -> None:
    assert main(["list", kind]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] == name]
    assert len(line.split()) > 3


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = f"{sys.executable} -u -m medtune list benchmarks | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_show_resolves_the_recipe_under_its_header(capsys: Capture) -> None:
    assert main(["show", "nano_busi_lora", "--set", "train.seed=9"]) == 0
    out = capsys.readouterr().out
    assert "# Expected:" in out
    assert "seed: 9" in out
    assert "warmup_ratio: 0.1" in out


def test_prepare_says_what_is_in_the_folder(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "prepared"
    assert main(["prepare", "busi", "--from", str(tiny_busi), "--out", str(out), "--limit", "12"]) == 0
    said = capsys.readouterr().out
    assert "diagnosis" in said
    assert "data hash" in said
    assert "patients:" in said


def test_prepare_refuses_a_source_of_another_benchmark(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["--from", str(tiny_busi), "--out", str(tmp_path / "p")]
    assert main(["prepare", "busi", "--source", "fetal_heads", *arguments]) == 1
    assert "takes the sources busi, not 'fetal_heads'" in capsys.readouterr().err
    assert main(["prepare", "bussi", *arguments]) == 1
    assert "Did you mean 'busi'?" in capsys.readouterr().err
    assert main(["prepare", "busi", "--from", str(tmp_path / "none"), "--out", str(tmp_path / "p")]) == 1
    assert "none" in capsys.readouterr().err


def test_validate_shows_labels_groups_and_budget(prepared_tiny: Path, capsys: Capture) -> None:
    assert main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}"]) == 0
    said = capsys.readouterr().out
    assert "(8 visual tokens)" in said
    assert "<|im_end|>]]" in said
    assert "66,240" in said, "the projector's parameters"
    assert "target tokens" in said
    assert "test        9 questions" in said


def test_validate_without_weights_needs_none(prepared_tiny: Path, capsys: Capture) -> None:
    arguments = ["validate", "pocket_busi_lora", "--no-weights", "--set", f"data.root={prepared_tiny}"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "134,515,008" in said
    assert "no weights were loaded" in said


def test_validate_refuses_an_unknown_parser(nano: Nano, prepared_tiny: Path, capsys: Capture) -> None:
    arguments = ["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", "eval.parser=lenient"]
    assert main(arguments) == 1
    assert "there are: robust, strict, likelihood" in capsys.readouterr().err


def test_score_takes_another_tools_file(prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    from medtune.data.prepared.read import open_prepared

    questions = open_prepared(prepared_tiny).questions("test")
    file = tmp_path / "theirs.jsonl"
    replies = [{"question_id": q.id, "text": f"The answer is {q.answer}."} for q in questions[:-1]]
    file.write_text("".join(json.dumps(row) + "\n" for row in replies))
    arguments = ["score", "busi", "--predictions", str(file), "--questions", str(prepared_tiny)]
    assert main(arguments) == 0
    assert "0 unparsable and 1 unanswered of 9" in capsys.readouterr().out
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["overall"]["value"] == pytest.approx(8 / 9)
    assert scores["parser"] == "robust"
    assert main([*arguments, "--parser", "strict"]) == 0
    assert json.loads((tmp_path / "scores.json").read_text())["overall"]["value"] == 0
    assert main([*arguments, "--parser", "robot"]) == 1
    assert "robust" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 1"),
        ('{"text": "benign"}', "question_id"),
        ('{"question_id": "diagnosis-0", "text": "benign"}', "diagnosis-0"),
    ],
)
def test_score_names_the_line_it_cannot_read(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, line: str, message: str
) -> None:
    file = tmp_path / "theirs.jsonl"
    file.write_text(line + "\n")
    assert main(["score", "busi", "--predictions", str(file), "--questions", str(prepared_tiny)]) == 1
    assert message in capsys.readouterr().err
