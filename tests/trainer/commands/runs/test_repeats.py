"""Tests that a run which draws several replies to each question is scored on all of them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano

DRAWN = ("eval.repeats=3", "eval.temperature=1.5", "eval.readings=[generation]", "eval.conditions=[image]")


def test_a_run_with_repeats_counts_every_reply_and_can_be_compared(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, first = tmp_path / "run", tmp_path / "first.jsonl"
    assert nano.here("eval", run, *DRAWN) == 0
    assert "zero-shot: mean of 3 passes" in capsys.readouterr().out
    lines = [json.loads(line) for line in (run / "zero_shot" / "parsed.jsonl").read_text().splitlines()]
    right: defaultdict[int, list[bool]] = defaultdict(list)
    for line in lines:
        right[line["repeat"]].append(line["robust"] == line["answer"])
    overall = json.loads((run / "results.json").read_text())["phases"]["zero_shot"]["overall"]
    assert (overall["n"], overall["repeats"], len(lines)) == (9, 3, 27)
    assert overall["value"] == pytest.approx(sum(map(sum, right.values())) / 27)
    assert "mean of 3 passes" in (run / "report.html").read_text("utf-8")
    said = (run / "zero_shot" / "predictions.jsonl").read_text().splitlines(keepends=True)
    first.write_text("".join(line for line in said if not json.loads(line)["repeat"]))
    capsys.readouterr()
    assert main(["compare", str(run), "--predictions", str(first)]) == 0
    assert "run (zero-shot): mean of 3 passes." in capsys.readouterr().out
