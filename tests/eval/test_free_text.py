"""Tests that free text is compared without case, surplus white space and a final full stop, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.types import AnswerKind, Question
from medtune.eval.metric import Metric, ParsedReply, comparable, mean_of_rows
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1


def asked(answer: str, kind: AnswerKind = "text", options: tuple[str, ...] = ()) -> Question:
    return Question("q", "m", "What?", options, answer, kind, "p")


@pytest.mark.parametrize(
    ("said", "truth"),
    [
        ("left lobe", "Left lobe"),
        ("  Left\tlobe.\n", "Left lobe"),
        ("LEFT  LOBE", "left lobe."),
        ("ＬＥＦＴ lobe", "left lobe"),
        ("ﬁbroadenoma", "Fibroadenoma"),
        ("ÉCHOGÈNE", "e\u0301choge\u0300ne"),
        ("STRASSE", "Straße"),
        ("5 cm²", "5 cm2"),
    ],
)
def test_the_same_free_text_in_another_spelling_is_right(said: str, truth: str) -> None:
    assert accuracy().value([ParsedReply(asked(truth), None, said)]) == 1.0


@pytest.mark.parametrize(
    ("said", "truth"),
    [("left lobes", "left lobe"), ("left-lobe", "left lobe"), ("5.", "5.1"), ("", "x"), ("no", "no mass"), ("..", "")],
)
def test_other_free_text_is_wrong(said: str, truth: str) -> None:
    assert accuracy().value([ParsedReply(asked(truth), None, said)]) == 0.0


@pytest.mark.parametrize("kind", ["choice", "yes_no", "number", "rubric"])
def test_options_and_numbers_are_compared_as_the_parser_reads_them(kind: AnswerKind) -> None:
    question = asked("A", kind, ("A", "a") if kind == "choice" else ())
    assert accuracy().value([ParsedReply(question, None, "a")]) == 0.0


def test_spellings_of_one_free_text_are_one_label() -> None:
    rows = [ParsedReply(asked("Liver"), None, "liver."), ParsedReply(asked("liver"), None, "LIVER")]
    rows += [ParsedReply(asked("Spleen"), None, "Kidney"), ParsedReply(asked("spleen"), None, "kidney")]
    assert macro_f1().value(rows) == pytest.approx(1 / 3)


def test_a_benchmark_that_compares_otherwise_has_a_metric_that_says_so() -> None:
    exact = Metric(mean_of_rows(lambda row: float(row.parsed == row.question.answer)))
    assert exact.value([ParsedReply(asked("Left"), None, "left")]) == 0.0


@given(st.text())
def test_what_is_comparable_is_so_in_any_case_and_again(text: str) -> None:
    assert comparable(text.casefold()) == comparable(text)
    assert comparable(f" {text}\n") == comparable(text)
