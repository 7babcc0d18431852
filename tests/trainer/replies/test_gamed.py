"""Trainings on rewards that are easily gamed: the audit of the run names what the model learnt instead."""

from pathlib import Path
from typing import Any

import pytest

from medtune.eval.predictions.files import read_predictions
from medtune.trainer.commands.cli import main
from tests.ranks import medtune_forked
from tests.trainer.conftest import json_of

LETTER = '''"""Pays every reply that begins with the letter A."""


def reward(question, reply):
    return float(reply.text.strip().upper().startswith("A"))
'''
ANSWERS, REWARDS = 80, 40


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "prepared"
    assert main(["prepare", "fetal_gauge", "--source", "fetal_phantom", "--out", str(out), "--limit", "200"]) == 0
    return out


def _gamed(reward: str, data: Path, folder: Path) -> Path:
    """Trains a tiny model to answer by letters and then by a reward; only the last weights are validated."""
    (folder / "mine" / "rewards").mkdir(parents=True)
    (folder / "mine" / "rewards" / "letter_a.py").write_text(LETTER, "utf-8")
    stages = (
        f"[{{name: answers, max_steps: {ANSWERS}}}, {{name: rewards, max_steps: {REWARDS}, loss: {{name: grpo}}, "
        f"replies: {{draws: 6, max_new_tokens: 24, scale_rewards: none, reward: {{score: 0.0, {reward}: 1.0}}}}}}]"
    )
    settings = [
        f"data.root={data}", "model.name=nano_pocket", "model.projector=null", "model.answer_format=letter",
        "model.tuning.projector.lr=0.001", "model.tuning.language.mode=full", "model.tuning.language.lr=0.003",
        "train.precision=32-true", "train.batch_size=8", "train.micro_batch_size=8", "train.max_steps=null",
        f"train.stages={stages}", f"eval.every_steps={ANSWERS + REWARDS}", "eval.val_questions=20",
        "eval.questions=100", "eval.conditions=[image]", "eval.max_new_tokens=24", "log.wandb=disabled",
    ]  # fmt: skip
    plugins, out = ("--plugins", str(folder / "mine")), folder / "run"
    medtune_forked(*plugins, "run", "pocket_fetal_phantom_grpo", "--no-doctor", "--out", str(out), "--set", *settings)
    medtune_forked(*plugins, "audit", str(out))
    return out


def _rows(run: Path) -> dict[str, Any]:
    return {row["name"]: row for row in json_of(run / "audit.json")["rows"]}


@pytest.mark.soak
def test_a_reward_for_the_letter_a_is_named_by_the_place_of_the_answer(simulated: Path, tmp_path: Path) -> None:
    run = _gamed("letter_a", simulated, tmp_path)
    said = [each.text for each in read_predictions(run / "final" / "predictions.jsonl")]
    assert sum((text or "").startswith("A") for text in said) > 0.95 * len(said)
    rows = _rows(run)
    assert rows["constant_letter"]["value"] == pytest.approx(rows["model"]["value"], abs=0.05)
    assert rows["constant_letter"]["flag"]
    assert rows["option_permutation"]["flag"]


@pytest.mark.soak
def test_a_reward_for_length_is_named_by_replies_that_do_not_end(simulated: Path, tmp_path: Path) -> None:
    run = _gamed("length", simulated, tmp_path)
    row = _rows(run)["cut_replies"]
    assert row["value"] > 0.9
    assert "of the replies were cut at their largest length" in row["flag"]
