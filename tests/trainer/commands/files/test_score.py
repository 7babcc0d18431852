"""Tests of `medtune score`, called as on the command line."""

import json
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


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
