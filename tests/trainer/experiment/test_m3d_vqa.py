"""Tests M3D-VQA from its files to the judge: choices are scored at once, free answers wait for their verdicts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.models.endpoint.chat_server import ChatServer, asked_text, completion, serving


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A judge that accepts every answer whose reference is "Axial"."""
    with serving() as server:
        server.reply = lambda body: completion(
            json.dumps({"right": "Reference: Axial" in asked_text(body), "explanation": "."})
        )
        yield server


def test_from_tables_to_judged_answers(chat: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    write_example("m3d_vqa", raw)
    assert main(["prepare", "m3d_vqa", "--from", str(raw), "--out", str(out)]) == 0
    settings = [
        "model.name=nano_pocket_ct", "data.benchmark=m3d_vqa", f"data.root={out}", "log.wandb=disabled",
        "eval.readings=[generation]", "eval.conditions=[image]", "eval.max_new_tokens=4", "model.answer_format=letter",
    ]  # fmt: skip
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    before = json.loads((run / "results.json").read_text())["phases"]["zero_shot"]
    assert before["overall"]["n"] == 20
    assert set(before["by"]["task"]) == {"plane", "phase", "organ", "abnormality", "location"}
    free = before["metrics"]["image"]["robust"]["free_answers"]
    assert (free["value"], free["n"], free["unscored"]) == (None, 0, 20)
    judge = tmp_path / "judge.yaml"
    endpoint = {"base_url": chat.base_url, "model": "judge-1", "cache": str(tmp_path / "cache")}
    judge.write_text(yaml.safe_dump({"endpoint": endpoint}))
    assert main(["judge", str(run), "--judge", str(judge)]) == 0
    after = json.loads((run / "results.json").read_text())["phases"]["zero_shot"]
    free = after["metrics"]["image"]["robust"]["free_answers"]
    assert (free["value"], free["n"], free["unparsable"], free["unscored"]) == (0.2, 20, 0, 0)
    assert after["overall"] == before["overall"]
    capsys.readouterr()
    predictions = run / "zero_shot" / "predictions.jsonl"
    assert main(["score", "m3d_vqa", "--predictions", str(predictions), "--questions", str(out)]) == 0
    assert "of 20" in capsys.readouterr().out
    scores = json.loads((predictions.parent / "scores.json").read_text())
    assert {"robust", "official"} <= set(scores["metrics"]["image"])
