"""Tests free answers in several passes: a question waits until all its answers are judged."""

import json
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey
from medtune.eval.scoring.score import score_phase
from tests.eval.free_answers import FREE, Said, asked, predicted


def in_passes(*passes: tuple[Said, ...]) -> list[Prediction]:
    return [
        replace(each, key=each.key._replace(repeat=repeat))
        for repeat, said in enumerate(passes)
        for each in predicted(said)
    ]


def test_a_question_with_an_answer_that_waits_in_any_pass_is_unscored() -> None:
    said = in_passes((True, True, False, True), (True, "words", False, False))
    phase = score_phase(asked((True,) * 4), said, FREE)
    score = phase.overall.score
    assert (score.n, score.unscored, score.repeats, phase.unscored) == (3, 1, 2, 1)
    assert score.value == pytest.approx((1 + 0 + 0.5) / 3)
    assert score.repeat_sd == pytest.approx((2 / 3 - 1 / 3) / 2**0.5)


def test_the_judges_table_shows_the_mean_points_of_all_passes() -> None:
    benchmark = find_benchmark("ctlesionvqa")
    (phrase,) = [each for each in benchmark.examples if each.answer_kind == "text"]
    questions = [replace(phrase, id=f"q{number}", patient_id=f"p{number}") for number in range(3)]
    points = {("q0", 0): 1, ("q0", 1): 0, ("q1", 0): 1, ("q1", 1): 1, ("q2", 0): 1}
    said = [
        Prediction(
            PredictionKey(id_, "image", "generation", repeat),
            text="words",
            verdict=json.dumps({"points": found, "explanation": "."}),
        )
        for (id_, repeat), found in points.items()
    ]
    table = next(
        each
        for each in score_phase(questions, said, benchmark).tables
        if each.title == "Phrases in free text, by a judge"
    )
    name, value, _, _, n, waiting = table.rows[-1]
    # The second answer to the third question is missing, which has no points.
    assert value == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert (name, n, waiting) == ("all", 3, 0)
    assert table.notes[-1] == "Points: mean of 2 passes."
    waits = [replace(each, verdict=None) if each.key.repeat else each for each in said]
    table = next(
        each
        for each in score_phase(questions, waits, benchmark).tables
        if each.title.startswith("Phrases in free text")
    )
    assert table.rows[-1][4:] == (1, 2)
