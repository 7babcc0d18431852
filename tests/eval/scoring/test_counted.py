"""Tests that each question of a number counts, or is left out for a reason."""

from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows
from medtune.eval.scoring.counted import NO_REPLY_ASKED, NOT_ABOUT, WAITS, counted, reads_replies_alone
from medtune.eval.scoring.score import parts, score_rows
from tests.eval.answers import generated

CLOSED = Question("c", "m1", "Is a mass seen?", ("yes", "no"), "no", "yes_no", "p1")
FREE = Question("o", "m2", "Which organ?", (), "liver", "text", "p2")
WAITING = replace(FREE, id="w")
ROWS = [ParsedReply(CLOSED, None, "no"), ParsedReply(FREE, None, "liver"), ParsedReply(WAITING, None, None, True)]
EVERY = Metric(mean_of_rows(lambda row: float(row.correct)))
OF_FREE = EVERY.only(lambda question: not question.options)


@pytest.mark.parametrize(
    ("metric", "replies_alone", "why"),
    [
        (EVERY, False, [None, None, WAITS]),
        (OF_FREE, False, [NOT_ABOUT, None, WAITS]),
        (EVERY, True, [NO_REPLY_ASKED, None, WAITS]),
        (OF_FREE, True, [NO_REPLY_ASKED, None, WAITS]),
        (EVERY.only(lambda question: bool(question.options)), False, [None, NOT_ABOUT, NOT_ABOUT]),
    ],
)
def test_every_question_counts_or_has_a_reason(metric: Metric, replies_alone: bool, why: list[str | None]) -> None:
    found = counted(ROWS, metric, replies_alone=replies_alone)
    assert list(found.why) == why
    assert (
        list(found.rows)
        == [ROWS[place] for place in found.places]
        == [row for row, each in zip(ROWS, why, strict=True) if not each]
    )
    assert list(found.about) == [row for row, each in zip(ROWS, why, strict=True) if each in (None, WAITS)]
    assert list(found.asked) == [row for row, each in zip(ROWS, why, strict=True) if each != NO_REPLY_ASKED]
    assert list(found.left_out(WAITS)) == [row for row, each in zip(ROWS, why, strict=True) if each == WAITS]


def test_a_score_counts_what_the_function_says_whatever_rows_it_is_given() -> None:
    score = score_rows(ROWS, OF_FREE)
    assert (score.value, score.n, score.unscored) == (1.0, 1, 1)


def test_options_alone_by_likelihood_are_asked_for_no_reply_until_one_has_one() -> None:
    read = Prediction(PredictionKey("c", "image", "likelihood", 0), option_logprobs=(-2.0, -1.0))
    said = generated("o", "liver")
    asked = [CLOSED, FREE]
    assert reads_replies_alone("robust", asked, [read, said], ["robust"])
    assert not reads_replies_alone("likelihood", asked, [read, said], ["robust"])
    reply = generated("c", "no")
    assert not reads_replies_alone("robust", asked, [read, said, reply], ["robust"])


def test_the_parts_are_about_every_question_once() -> None:
    benchmark = find_benchmark("vqa_rad")
    closed = replace(CLOSED, facets={"task": "yes_no"})
    free = replace(FREE, facets={"task": "open"})
    rows = [ParsedReply(closed, None, "no"), ParsedReply(free, None, "liver")]
    found = dict(parts(rows, benchmark))
    assert next(iter(found)) == benchmark.primary
    assert sorted(row.question.id for each in found.values() for row in each.about) == ["c", "o"]
