"""Tests that the rules of other tools stand beside our scores: in the scores, in scores.json and in the report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.scoring.reply_rules import TITLE, ReplyRule
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import Table
from tests.eval.answers import generated

LABELS = ("benign", "normal")
ASKED = [Question(f"q{n}", f"m{n}", "Which?", LABELS, LABELS[n % 2], "choice", f"p{n}") for n in range(4)]


def share_equal(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
    """Counts replies that equal the answer character by character, as a strict tool does."""
    right = sum(said == question.answer for question, said in replies)
    return {"accuracy": right / len(replies), "empty replies": float(sum(not said for _, said in replies))}


RULE = ReplyRule("Strict tool", "nowhere@0, strict.py:1", "A full stop makes an answer wrong.", share_equal)
BUSI = find_benchmark("busi")
RULED: Benchmark = replace(BUSI, facets=(), metrics={"accuracy": BUSI.metrics["accuracy"]}, rules={"strict": RULE})


def predicted(*texts: str, repeat: int = 0) -> list[Prediction]:
    return [generated(question, text, repeat) for question, text in zip(ASKED, texts, strict=False)]


def rules_of(predictions: Sequence[Prediction], benchmark: Benchmark = RULED) -> Table:
    (table,) = (table for table in score_phase(ASKED, predictions, benchmark).tables if table.title == TITLE)
    return table


def test_a_rule_stands_beside_our_score_of_the_same_replies() -> None:
    table = rules_of(predicted("benign.", "normal", "benign.", "normal"))
    assert table.columns == ("rule", "accuracy", "empty replies")
    assert table.rows[0] == ("ours: robust", 1.0, None)
    assert table.rows[-1] == ("Strict tool", 0.5, 0.0)
    assert table.notes == ("Strict tool: A full stop makes an answer wrong. Source: nowhere@0, strict.py:1.",)


def test_an_unanswered_question_reaches_the_rule_as_an_empty_reply() -> None:
    assert rules_of(predicted("benign", "normal")).rows[-1] == ("Strict tool", 0.5, 2.0)


def test_several_passes_are_averaged_like_other_tables() -> None:
    both = predicted("benign", "normal", "benign", "normal") + predicted("x", "x", "x", "x", repeat=1)
    table = rules_of(both)
    assert (table.rows[0][1], table.rows[-1][1]) == (0.5, 0.5)


def test_there_is_no_table_without_rules_or_without_generated_replies() -> None:
    likely = [
        Prediction(PredictionKey(question.id, "image", "likelihood", 0), option_logprobs=(0.0, -1.0))
        for question in ASKED
    ]
    assert not [table for table in score_phase(ASKED, likely, RULED).tables if table.title == TITLE]
    said = predicted("benign", "normal", "benign", "normal")
    assert not [table for table in score_phase(ASKED, said, replace(RULED, rules={})).tables if table.title == TITLE]


def test_a_rule_that_fails_is_not_hidden() -> None:
    def broken(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
        raise ZeroDivisionError("no words")

    with pytest.raises(ZeroDivisionError):
        rules_of(predicted("benign"), replace(RULED, rules={"broken": replace(RULE, score=broken)}))
