"""Trainings whose draws a judge scores: what it pays, what is asked once, its cap on costs, and what is refused."""

import json
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from tests.models.endpoint.chat_server import KEY, ChatServer, asked_text
from tests.ranks import medtune_forked
from tests.trainer.commands.conftest import VARIABLE
from tests.trainer.conftest import Curve, Told


def _settings(chat: ChatServer, root: Path, cache: Path, *further: str) -> list[str]:
    endpoint = {
        "base_url": chat.base_url, "model": "judge-1", "key_env": VARIABLE, "cache": cache, "max_usd": 1,
        "usd_per_million_input_tokens": 1, "usd_per_million_output_tokens": 1, "max_retries": 1,
    }  # fmt: skip
    return [
        "data.benchmark=rexsonovqa", f"data.root={root}", "log.wandb=disabled", "train.precision=32-true",
        "eval.readings=[generation]", "eval.conditions=[image]", "eval.judge_at=[]", "eval.val_questions=4",
        "eval.every_steps=2", "eval.max_new_tokens=2", "train.max_steps=2", "train.batch_size=6",
        "train.micro_batch_size=2", "train.loss.name=grpo", "train.replies.draws=3", "train.replies.max_new_tokens=3",
        "train.replies.judge=true", *(f"eval.judge.endpoint.{name}={value}" for name, value in endpoint.items()),
        *further,
    ]  # fmt: skip


def _run(out: Path, settings: list[str]) -> list[str]:
    return ["train", "nano_busi_lora", "--out", str(out), "--set", *settings]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def test_a_judge_pays_its_points_for_draws_that_only_it_scores(
    chat: ChatServer, clips: Path, tmp_path: Path, curve: Curve
) -> None:
    """The judge gives 1 or 2 of 2 points, by the number of the question; it sees each text of a question once."""
    out, free = tmp_path / "run", "train.stages=[{name: free, max_steps: 2, only: {format: [free]}}]"
    medtune_forked(*_run(out, _settings(chat, clips, tmp_path / "cache", "train.max_steps=null", free)))
    shown = [asked_text(body) for body in chat.bodies]
    assert shown
    assert len(shown) == len(set(shown))
    assert all(0.5 <= score <= 1 for score in curve(out, "reward/score"))
    assert curve(out, "reward/unjudged") == [0.0, 0.0]
    charged = [json.loads(line) for line in (out / "judge_spending.jsonl").read_text().splitlines()]
    assert len(charged) == len(shown)


@pytest.mark.slow
def test_two_devices_ask_one_judge_and_learn_what_one_does(
    chat: ChatServer, clips: Path, tmp_path: Path, curve: Curve
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    medtune_forked(*_run(one, _settings(chat, clips, tmp_path / "cache")))
    asked = sorted(asked_text(body) for body in chat.bodies)
    chat.bodies.clear()
    medtune_forked(*_run(two, _settings(chat, clips, tmp_path / "other", "train.devices=2")))
    assert sorted(asked_text(body) for body in chat.bodies) == asked
    assert curve(two, "reward/score") == pytest.approx(curve(one, "reward/score"), abs=1e-12)
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-6)


def test_a_cap_that_is_reached_ends_the_training_with_a_sentence(
    chat: ChatServer, clips: Path, tmp_path: Path, refused: Told
) -> None:
    settings = _settings(chat, clips, tmp_path / "cache", "eval.judge.endpoint.max_usd=0.0001")
    said = refused(main(_run(tmp_path / "run", settings)))
    assert "train.replies.judge: judging" in said
    assert "Raise max_usd" in said


def test_what_cannot_be_judged_is_refused(chat: ChatServer, clips: Path, tmp_path: Path, refused: Told) -> None:
    free = sum(question.answer_kind == "rubric" for question in open_prepared(clips).questions("train"))
    for change, said in (
        ("train.replies.judge=false", f"{free} of the"),
        ("eval.judge=null", "train.replies.judge is true, and no judge is named; give eval.judge"),
        ("eval.judge.endpoint.max_usd=null", "eval.judge.endpoint has no cap on costs"),
        ("train.loss.name=dpo", "train.replies.judge is true, and the stage draws no replies"),
    ):
        settings = _settings(chat, clips, tmp_path / "cache", change)
        assert said in refused(main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings])), change
        assert said in refused(main(_run(tmp_path / "run", settings))), change
