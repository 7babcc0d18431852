"""Tests that a model is validated, trained and scored on questions of every kind, and by other tools' files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Question
from medtune.trainer.commands.cli import main
from tests.own_questions import KINDS, Kind, prepare_own
from tests.trainer.conftest import Nano

VQA = find_benchmark("vqa")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "primary", "parser"),
    [
        (KINDS, "closed_accuracy", "likelihood"),
        (("short", "number"), "exact_match", "reply"),
        (("report",), "rouge_l", "reply"),
    ],
)
def test_what_validate_accepts_run_finishes(
    nano: Nano,
    tmp_path: Path,
    kinds: tuple[Kind, ...],
    primary: str,
    parser: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = prepare_own(tmp_path, dict.fromkeys(("train", "val", "test"), kinds), patients=3).root
    settings = ("data.benchmark=vqa", f"data.root={root}", "train.max_steps=1")
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings]) == 0
    assert f"scores     {primary}, read by {parser} (asked for: " in capsys.readouterr().out
    run = tmp_path / "run"
    assert nano.here("run", run, *settings) == 0
    results = json.loads((run / "results.json").read_text())
    final = results["phases"]["final"]
    assert (results["primary"]["name"], final["parser"]) == (primary, parser)
    assert set(final["by"]) == {"task", "side"}
    assert final["tables"][0]["title"] == "Scores by kind of question"
    assert sum(row[1] for row in final["tables"][0]["rows"]) == 3 * len(kinds)
    assert "Scores by kind of question" in (run / "report.html").read_text()


def own_lines(question: Question) -> dict[str, object]:
    return {"question_id": question.id, "text": f"The answer is {question.answer}."}


def swift_lines(question: Question) -> dict[str, object]:
    said = f"The answer is {question.answer}."
    turns = [
        {"role": "user", "content": f"<image>{VQA.render(question, 'text').text}"},
        {"role": "assistant", "content": said},
    ]
    return {"response": said, "labels": question.answer, "logprobs": None, "messages": turns}


def lmms_lines(question: Question) -> dict[str, object]:
    prompt = VQA.render(question, "letter").text
    return {"doc_id": 0, "input": prompt, "target": question.answer, "filtered_resps": [f" {question.answer}."]}


def vlmevalkit_rows(question: Question) -> dict[str, object]:
    lettered = dict(zip("ABC", question.options, strict=False))
    return {"question": question.text, "answer": question.answer, **lettered, "prediction": f"It is {question.answer}"}


@pytest.mark.parametrize("row", [own_lines, swift_lines, lmms_lines, vlmevalkit_rows])
def test_files_of_other_tools_are_scored_on_own_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: Callable[[Question], dict[str, object]]
) -> None:
    prepared = prepare_own(tmp_path, dict.fromkeys(("train", "val", "test"), KINDS), patients=2)
    asked = prepared.questions("test")
    silent = next(question for question in asked if question.options)
    lines = [json.dumps(row(question)) for question in asked if question is not silent]
    said = tmp_path / "said.jsonl"
    said.write_text("\n".join(lines))
    assert main(["score", "vqa", "--predictions", str(said), "--questions", str(prepared.root)]) == 0
    assert "Scores by kind of question" in capsys.readouterr().out
    scores = json.loads((tmp_path / "scores.json").read_text())
    found = scores["metrics"]["image"]["reply"]
    assert (found["closed_accuracy"]["value"], found["exact_match"]["value"]) == (0.75, 1.0)
    assert scores["file_rows"]["unanswered"] == 1
