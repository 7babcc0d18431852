"""Tests that the rules of other tools are shown by `medtune score`, in scores.json and in the report."""

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.eval.scoring.reply_rules import TITLE
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano

PLUGIN = '''"""BUSI with the rule of a strict tool."""

from __future__ import annotations

from dataclasses import replace

from medtune.benchmarks.busi import benchmark as busi
from medtune.eval.scoring.reply_rules import ReplyRule


def benchmark():
    """Returns the benchmark."""
    return replace(busi(), rules={"strict": ReplyRule("Strict tool", "nowhere", "A full stop is wrong.", share_equal)})


def share_equal(replies):
    """Returns the share of replies that are the answer character by character."""
    return {"accuracy": sum(said == question.answer for question, said in replies) / len(replies)}
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "ruled_busi.py").write_text(PLUGIN)
    return folder.parent


@pytest.fixture
def prepared(plugin: Path, tiny_busi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return prepare(find_source("busi"), benchmark="ruled_busi", root=tiny_busi, out=tmp_path / "prepared")


def test_score_prints_the_rules_and_writes_them(
    plugin: Path, prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tmp_path / "said.jsonl"
    lines = [{"question_id": each.id, "text": f"{each.answer}."} for each in prepared.questions("test")]
    said.write_text("\n".join(map(json.dumps, lines)))
    folders = ["--plugins", str(plugin)]
    assert main([*folders, "score", "ruled_busi", "--predictions", str(said), "--questions", str(prepared.root)]) == 0
    shown = capsys.readouterr().out.partition(TITLE)[2]
    assert "Strict tool" in shown
    assert "A full stop is wrong. Source: nowhere." in shown
    tables = json.loads((tmp_path / "scores.json").read_text())["tables"]
    (table,) = (each for each in tables if each["title"] == TITLE)
    assert (table["rows"][0][:2], table["rows"][-1][:2]) == (["ours: robust", 1.0], ["Strict tool", 0.0])


@pytest.mark.slow
def test_the_report_shows_the_rules(plugin: Path, prepared: Prepared, nano: Nano, tmp_path: Path) -> None:
    settings = (f"data.root={prepared.root}", "data.benchmark=ruled_busi", "eval.questions=2")
    assert nano.here("eval", tmp_path / "run", *settings, extra=("--plugins", str(plugin))) == 0
    assert TITLE in (tmp_path / "run" / "report.html").read_text()
    assert TITLE in (tmp_path / "run" / "report.md").read_text()
