import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks.ctlesionvqa import benchmark
from medtune.benchmarks.ctlesionvqa.reply_parsers import (
    LETTERS,
    normalised,
    official_letter,
    official_number,
    official_yes_no,
    plain,
    robust_yes_no,
    vsi_number,
)
from medtune.data.types import Question
from medtune.eval.scoring.parsers.number_parsers import read_number

ANYTHING = st.one_of(
    st.text(),
    st.binary().map(lambda raw: raw.decode("utf-8", "replace")),
    st.text(alphabet="0123456789.,-+eE/ <think>answer:minusyno"),
)
EXAMPLES = benchmark().examples
Parser = Callable[[str, Question], str | None]


@pytest.mark.parametrize("parser", benchmark().parsers.values(), ids=benchmark().parsers)
@given(reply=ANYTHING, question=st.sampled_from(EXAMPLES))
def test_any_reply_is_read_without_crashing(parser: Parser, reply: str, question: Question) -> None:
    said = parser(reply, question)
    if question.options:
        assert said in (None, *question.options)
    if said is not None and question.answer_kind == "number":
        assert math.isfinite(float(said))
        assert parser(said, question) == said


@given(ANYTHING)
def test_robust_readings_are_their_own_canonical_form(reply: str) -> None:
    robust = benchmark().parsers["robust"]
    for question in EXAMPLES:
        said = robust(reply, question)
        assert said is None or robust(said, question) == said
    word = robust_yes_no(reply)
    assert word is None or robust_yes_no(word) == official_yes_no(word) == word


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_parser_reads_a_plain_number_back(value: float) -> None:
    assert float(plain(value)) == value
    assert official_number(plain(value)) == vsi_number(plain(value)) == read_number(plain(value)) == value


def test_canonical_letters_and_words_stay() -> None:
    assert [official_letter(letter) for letter in LETTERS] == [*LETTERS]
    assert [official_yes_no(word) for word in ("yes", "no")] == ["yes", "no"]
    assert normalised(normalised("Head of Pancreas.")) == "head of pancreas"


def test_robust_numbers_avoid_the_official_traps() -> None:
    read = {
        "The volume is 1,123.3 cc": 1123.3, "minus 35": -35.0, "−9": -9.0, "1e3": 1000.0, ".5": 0.5,
        "L1 vertebra, 14 mm": 14.0, "<think>99</think> 14": 14.0, "I see 4. Answer: 42.": 42.0, "three": 3.0,
        "12 cm, that is 12 cm": 12.0, "+8": 8.0,
    }  # fmt: skip
    for reply, value in read.items():
        assert read_number(reply) == value, reply
    for reply in ("10-12", "between 4 and 6", "12/5", "2 of 3.1", "none", "", "n/a", "9" * 400, "NaN", "16 to 17"):
        assert read_number(reply) is None, reply
    assert read_number("I see 2 lesions of 3.1 cm", "cm") == 3.1


def test_robust_yes_no_avoids_the_official_traps() -> None:
    for reply in ("Normal liver", "Nodule present", "notably enlarged", "maybe yes, maybe no", "neither yes nor no"):
        assert official_yes_no(reply)
        assert robust_yes_no(reply) is None, reply
    assert robust_yes_no("**Yes**, there is no doubt") == "yes"
    assert robust_yes_no("No lesion is seen") == "no"
    assert robust_yes_no("<think>yes</think>no") == "no"


def test_robust_choice_reads_past_the_word_answer() -> None:
    question = next(each for each in EXAMPLES if len(each.options) == 4)
    parsers = benchmark().parsers
    assert parsers["official"]("Answer: C", question) == question.options[0]
    assert parsers["robust"]("Answer: C", question) == question.options[2]
    assert parsers["robust"]("Based on the scan", question) is None
    assert parsers["vsi"]("C. because", question) == question.options[2]


def test_phrases_are_equal_after_normalisation_alone() -> None:
    question = replace(EXAMPLES[-1], answer="Head of pancreas")
    for name in ("robust", "official"):
        parser = benchmark().parsers[name]
        assert parser("<think>tail</think> head of pancreas.", question) == "Head of pancreas"
        assert parser("pancreas", question) == "pancreas"
        assert parser("", question) is None
