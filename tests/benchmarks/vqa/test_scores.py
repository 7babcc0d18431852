"""Tests the scores of anybody's own questions: the primary metric, the tables, the facets and the judge's points."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import MAX_LEVELS
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import Table
from tests.own_questions import KINDS, Kind, own_question

VQA = find_benchmark("vqa")


def asked(*kinds: Kind, each: int = 4) -> list[Question]:
    return [own_question(kind, number) for kind in kinds for number in range(each)]


def said(questions: Sequence[Question], *, likelihood: bool = False) -> list[Prediction]:
    """Returns the right reply to every question, and the likelihoods of options where they are asked for."""
    replies = [Prediction(PredictionKey(q.id, "image", "generation", 0), text=q.answer) for q in questions]
    read = [
        Prediction(
            PredictionKey(q.id, "image", "likelihood", 0),
            option_logprobs=tuple(0.0 if option == q.answer else -5.0 for option in q.options),
        )
        for q in questions
        if q.options
    ]
    return [*replies, *(read if likelihood else ())]


def scored(questions: Sequence[Question], predictions: Sequence[Prediction], parser: str | None = None) -> PhaseScores:
    return score_phase(questions, predictions, VQA.for_part(questions), parser=parser)


def table(scores: PhaseScores, title: str) -> Table:
    (found,) = (each for each in scores.tables if each.title == title)
    return found


@pytest.mark.parametrize(
    ("kinds", "primary"),
    [
        (KINDS, "closed_accuracy"),
        (("yes_no", "report"), "closed_accuracy"),
        (("short",), "exact_match"),
        (("number",), "exact_match"),
        (("short", "report"), "exact_match"),
        (("report",), "rouge_l"),
    ],
)
def test_the_primary_metric_follows_the_questions(kinds: Sequence[Kind], primary: str) -> None:
    questions = asked(*kinds)
    assert VQA.for_part(questions).primary == primary
    assert scored(questions, said(questions)).overall.score.value == pytest.approx(1)


def test_mostly_reports_have_no_exact_match() -> None:
    metrics = VQA.for_part([*asked("short", each=1), *asked("report")]).metrics
    assert next(iter(metrics)) == "rouge_l"
    assert "exact_match" not in metrics


def test_closed_and_open_questions_are_never_mixed_in_one_number() -> None:
    questions = asked(*KINDS)
    wrong_open = [replace(each, text="x") if "yes_no" not in each.key.question_id else each for each in said(questions)]
    found = scored(questions, wrong_open).metrics["image"]["reply"]
    assert (found["closed_accuracy"].value, found["closed_accuracy"].n) == (0.5, 8)
    assert (found["exact_match"].value, found["exact_match"].n) == (0.0, 12)


def test_the_table_shows_each_kind_with_its_number_of_questions() -> None:
    questions = asked(*KINDS, each=2)
    for parser in ("reply", "likelihood"):
        found = table(scored(questions, said(questions, likelihood=True), parser), "Scores by kind of question")
        rows = {row[0]: row[1:] for row in found.rows}
        assert {name: row[0] for name, row in rows.items()} == {
            "closed: options": 2,
            "closed: yes or no": 2,
            "open: number": 2,
            "open: short answer": 2,
            "open: longer text": 2,
        }
        assert all(1.0 in row for row in rows.values())


def test_scores_are_broken_down_by_every_facet_of_the_data() -> None:
    questions = [
        replace(each, facets={**each.facets, "scanner": "A", "row": str(number)})
        for number, each in enumerate(asked("yes_no", each=MAX_LEVELS + 1))
    ]
    scores = scored(questions, said(questions))
    assert set(scores.by) == {"task", "side", "scanner"}
    assert set(scores.by["side"]) == {"left", "right"}
    notes = " ".join(table(scores, "Scores by kind of question").notes)
    assert f"There are no scores by row: it has {MAX_LEVELS + 1} different values, more than {MAX_LEVELS}." in notes


def test_a_judge_gives_points_to_free_answers_beside_the_scores() -> None:
    questions, task = asked("short", "report", "yes_no", each=2), VQA.judging
    assert task is not None
    assert [task.covers(question) for question in questions] == [True] * 4 + [False] * 2
    assert not any(map(task.is_needed, questions))
    predictions = said(questions)
    points = dict(zip((each.key for each in predictions[:4]), (2, 1, 2, 0), strict=True))
    replies = {key: json.dumps({"points": number, "explanation": "."}) for key, number in points.items()}
    assert all(map(task.is_usable, replies.values()))
    judged = scored(questions, task.applied(predictions, replies))
    rows = {row[0]: row[1] for row in table(judged, "Free answers, by a judge").rows}
    assert rows == {"open: short answer": 0.75, "open: longer text": 0.5, "all": 0.625}
    assert judged.overall == scored(questions, predictions).overall
    shown = task.user(questions[0], "the lung")
    assert all(text in shown for text in (questions[0].text, questions[0].answer, "the lung"))


def test_unanswered_questions_are_wrong_in_every_metric() -> None:
    questions = asked(*KINDS)
    found = scored(questions, []).metrics["image"]["reply"]
    assert all(score.value == pytest.approx(0, abs=1e-8) for score in found.values())
