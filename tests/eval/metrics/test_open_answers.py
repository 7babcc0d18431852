"""Tests the metrics of open and closed answers against torchmetrics and by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.text import bleu_score, squad

from medtune.benchmarks.vqa import verbatim
from medtune.data.types import AnswerKind, Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.metrics.bleu import bleu1, bleu2, bleu3, bleu4
from medtune.eval.metrics.closed_and_open import closed_accuracy, exact_match, open_recall, token_f1

WORDS = ("left", "right", "lung", "Liver", "the", "mass", "of", "small", "no")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)


def row(said: str | None, truth: str, kind: AnswerKind = "text", options: tuple[str, ...] = ()) -> ParsedReply:
    return ParsedReply(Question("q", "m", "What?", options, truth, kind, "p"), None, said)


def value(metric: Metric, *pairs: tuple[str | None, str]) -> float:
    return metric.value([row(said, truth) for said, truth in pairs])


@settings(max_examples=40)
@given(PAIRS)
def test_exact_match_and_f1_are_those_of_squad(pairs: list[tuple[str, str]]) -> None:
    with_words = [(said, truth) for said, truth in pairs if {*said.split()} - {"the"} and {*truth.split()} - {"the"}]
    if not with_words:
        return
    theirs = squad(
        [{"prediction_text": said, "id": str(n)} for n, (said, _) in enumerate(with_words)],
        [{"answers": {"answer_start": [0], "text": [truth]}, "id": str(n)} for n, (_, truth) in enumerate(with_words)],
    )
    assert 100 * value(exact_match(), *with_words) == pytest.approx(float(theirs["exact_match"]), rel=1e-5)
    assert 100 * value(token_f1(), *with_words) == pytest.approx(float(theirs["f1"]), rel=1e-5)


@settings(max_examples=40)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=3, max_size=6))
def test_bleu_of_each_order_is_that_of_torchmetrics(pairs: list[tuple[str, str]]) -> None:
    # With a text of its own that is long and equal, no precision is 0, where the two libraries differ.
    long = "a small mass of the left lung near the heart"
    whole = [*pairs, (long, long)]
    for order, metric in enumerate((bleu1, bleu2, bleu3, bleu4), start=1):
        theirs = bleu_score([said for said, _ in whole], [[truth] for _, truth in whole], n_gram=order)
        assert value(metric(), *whole) == pytest.approx(float(theirs), rel=1e-5)


def test_open_recall_counts_each_word_of_the_truth_once_for_each_time_it_is_said() -> None:
    assert value(open_recall(), ("no mass no", "no mass")) == 1
    assert value(open_recall(), ("no", "no mass no")) == pytest.approx(1 / 3)
    assert value(open_recall(), ("liver and spleen", "spleen")) == 1


def test_silence_and_unread_replies_score_0_and_raise_nothing() -> None:
    for metric in (exact_match(), verbatim(), token_f1(), open_recall(), bleu1(), bleu4()):
        assert value(metric, (None, "left lung")) == pytest.approx(0, abs=1e-9)
        assert value(metric, ("", "left lung")) == pytest.approx(0, abs=1e-9)


def test_verbatim_is_the_off_switch_of_normalisation() -> None:
    pairs = (("left lung", "left lung"), ("Left lung.", "left lung"), ("2", "two"), ("the left lung", "left lung"))
    assert value(exact_match(), *pairs) == 1
    assert value(verbatim(), *pairs) == 0.25


def test_closed_and_open_questions_are_counted_apart() -> None:
    closed = [row("yes", "yes", "yes_no", ("yes", "no")), row("b", "a", "choice", ("a", "b"))]
    opened = [row("liver", "liver"), row("5", "5", "number"), row("x", "liver")]
    assert closed_accuracy().value(closed_accuracy().covered([*closed, *opened])) == 0.5
    assert exact_match().value(exact_match().covered([*closed, *opened])) == pytest.approx(2 / 3)
