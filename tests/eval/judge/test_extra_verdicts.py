"""Tests that extra verdicts have a table of their own and change no other number."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import JudgeRequest, PredictionKey, Question
from medtune.eval.judge.verdicts import judge_predictions, with_verdicts
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import Table
from medtune.eval.statistics.intervals import METHOD
from tests.eval.answers import generated

PHRASE = Question(
    "p", "m", "Which kind?", (), "cyst", "text", "p",
    {"task": "medical reasoning", "subtype": "lesion type classification", "format": "free_text", "organ": "liver"},
)  # fmt: skip
NUMBER = replace(PHRASE, id="n", text="How many?", answer="3", answer_kind="number",
                 facets={**PHRASE.facets, "task": "visual reasoning", "subtype": "lesion counting"})  # fmt: skip
U2_TEXTS = [question for question in find_benchmark("u2_bench").examples if question.answer_kind == "text"]
TITLES = {"ctlesionvqa": "Phrases in free text, by a judge", "u2_bench": "Reports and captions, by a judge"}


@dataclass
class Scripted:
    """Gives the points that a reply ends with, and no verdict on other replies."""

    name: str = "scripted"

    def replies(
        self, asked: Sequence[JudgeRequest], *, is_usable: Callable[[str], bool]
    ) -> Iterator[tuple[PredictionKey, str | None]]:
        for request in asked:
            verdict = json.dumps({"points": 0, "explanation": "x"}).replace("0", request.user.split()[-1])
            yield request.key, verdict if is_usable(verdict) else None


def scores(name: str, questions: Sequence[Question], texts: Sequence[str], path: Path | None) -> PhaseScores:
    """Returns the scores of replies; with a path, they are judged there before."""
    benchmark = find_benchmark(name)
    task = benchmark.judging
    assert task is not None
    said = [generated(question, text) for question, text in zip(questions, texts, strict=True)]
    if path is not None:
        judge_predictions(Scripted(), said, questions, task, system=task.system, path=path)
        said = with_verdicts(said, path, benchmark)
    return score_phase(questions, said, benchmark)


def table_of(found: PhaseScores, name: str) -> Table | None:
    return next((table for table in found.tables if table.title == TITLES[name]), None)


def test_phrases_are_judged_by_subtype_and_other_answers_are_not(tmp_path: Path) -> None:
    phrases = [replace(PHRASE, id=f"p{number}", patient_id=f"p{number}") for number in range(5)]
    questions = [*phrases, NUMBER]
    texts = ["a cystic lesion 1", "a tumour 0", "2 of 1: 2", "", "<think>1</think>", "3"]
    found = scores("ctlesionvqa", questions, texts, tmp_path / "predictions.jsonl")
    table = table_of(found, "ctlesionvqa")
    assert table is not None
    assert table.columns == ("subtype", "points", "95% low", "95% high", "n", "no verdict")
    (name, points, low, high, n, waiting), last = table.rows
    assert (name, points, n, waiting) == ("lesion type classification", 0.25, 4, 1)
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 0.25 < high
    assert last == ("all", points, low, high, n, waiting)
    assert f"95 % intervals: {METHOD}." in table.notes


@pytest.mark.parametrize(
    ("name", "questions", "texts"),
    [
        # A reply without a letter is wrong without a judge, so it does not wait for one.
        ("ctlesionvqa", [PHRASE, replace(PHRASE, id="q")], ["a cyst 1", "?! 1"]),
        ("u2_bench", U2_TEXTS, ["The liver is even. 3", "A plane. 1"]),
    ],
)
def test_nothing_else_changes_by_verdicts(
    tmp_path: Path, name: str, questions: list[Question], texts: list[str]
) -> None:
    without, judged = (scores(name, questions, texts, path) for path in (None, tmp_path / "predictions.jsonl"))
    assert table_of(without, name) is None
    assert table_of(judged, name) is not None
    assert (judged.overall, judged.by, judged.metrics) == (without.overall, without.by, without.metrics)
    assert without.unscored == 0
    others = [[table for table in found.tables if table.title != TITLES[name]] for found in (without, judged)]
    assert repr(others[0]) == repr(others[1])


def test_reports_and_captions_have_up_to_three_points(tmp_path: Path) -> None:
    found = scores("u2_bench", U2_TEXTS, ["even 3", "somewhere 1"], tmp_path / "predictions.jsonl")
    table = table_of(found, "u2_bench")
    assert table is not None
    assert {row[0]: row[1] for row in table.rows} == {
        "RG 39": 1.0, "CG 10": pytest.approx(1 / 3), "all": pytest.approx(2 / 3)
    }  # fmt: skip


@pytest.mark.parametrize("text", ['{"points": 4}', '{"points": "3"}', '{"points": true}', "[3]", "3 points"])
def test_what_is_no_verdict_is_asked_for_again(text: str) -> None:
    task = find_benchmark("u2_bench").judging
    assert task is not None
    assert not task.is_usable(text)
    assert task.is_usable('```json\n{"points": 3, "explanation": "all"}\n```')
