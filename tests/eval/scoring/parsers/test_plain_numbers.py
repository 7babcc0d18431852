"""Holds the reading of numbers against replies of which the generator knows what they mean."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks.ctlesionvqa.reply_parsers import robust_yes_no
from medtune.eval.scoring.parsers.measures import read_measure
from tests.eval.scoring.parsers.generated_numbers import MEANT, generated_numbers, number_replies, yes_no_replies
from tests.soak import sample_and_all


def test_every_kind_of_number_is_read_as_it_is_meant() -> None:
    said = number_replies(1, 3000, "mm")
    for each in said:
        assert read_measure(each.text, "mm") == each.meant, each
    kinds = Counter(each.kind for each in said)
    assert kinds.keys() > MEANT.keys()
    assert min(kinds.values()) > 50


@pytest.mark.parametrize("unit", ["mm", "HU", "cm", "cc", "%"])
@pytest.mark.parametrize("number", sample_and_all(500, 100_000))
def test_many_numbers_are_read_as_they_are_meant(number: int, unit: str) -> None:
    for each in number_replies(2, number, unit):
        assert read_measure(each.text, unit) == each.meant, each


@given(said=generated_numbers("mm"), change=st.sampled_from([str.upper, str.lower, " {}\n".format, "\n\n{}".format]))
def test_a_change_of_form_does_not_change_the_number(said: object, change: object) -> None:
    assert callable(change)
    text = str(getattr(said, "text", ""))
    assert read_measure(change(text), "mm") == read_measure(text, "mm")


@given(st.one_of(st.text(), st.text(alphabet="0123456789.,-+eE/x ±()answer:isto<>{}")))
def test_any_text_gives_a_finite_number_or_none(text: str) -> None:
    found = read_measure(text, "mm")
    assert found is None or math.isfinite(found)


def test_yes_and_no_are_read_as_they_are_meant() -> None:
    for each in yes_no_replies(1, 3000):
        assert robust_yes_no(each.text) == each.meant, each
