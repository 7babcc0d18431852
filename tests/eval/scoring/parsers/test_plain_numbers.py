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


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("12,5", 12.5),
        ("12,50", 12.5),
        ("0,123", 0.123),
        ("1234,567", 1234.567),
        ("1,123", 1123),
        ("1,123.5", 1123.5),
        ("1.123,5", 1123.5),
        ("12,000,000", 12_000_000),
        ("-3,5 cm", -3.5),
        ("12,5,7", None),
        ("2.5.1", None),
        ("3,4 to 3,6 cm", None),
    ],
)
def test_a_comma_separates_thousands_before_three_digits_alone(reply: str, value: float | None) -> None:
    assert read_measure(reply, "cm") == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("<answer>12.5</answer>", 12.5),
        (r"The size is $\boxed{12.5\,\text{mm}}$.", 12.5),
        ('{"answer": 12.5, "image": 3}', 12.5),
        ('```json\n{"answer": "12.5 mm"}\n```', 12.5),
        ("In 2 images I see 3 cysts. Answer: 12.5 mm. It was 11 mm before.", 12.5),
        ("In 2 images I see 3 cysts. Answer: 12.5. Image 2 is sharp.", 12.5),
        ("Answer: 12.5 mm. The answer is based on image 2.", 12.5),
        ("Answer: 12. Answer: 13.", None),
        ("12.5 ± 0.2 mm", 12.5),
        ("12.5 (± 0.2) mm", 12.5),
        ("3 x 4 mm", None),
        ("3 mm x 4 mm", None),
        ("3 mm to 4 mm", None),
        ("between 3 mm and 4 mm", None),
        ("1200mm3", None),
        ("1.2 cm", 12),
        ("12x14", None),
        ("３.５ mm", 3.5),
        ("١٢٫٥", 12.5),
        ("12 mm</think>\n\n14 mm", 14),
        ("<think>12 mm", None),
        ("twenty-one", 21),
        ("1e999", None),
    ],
)
def test_numbers_of_current_models_are_read(reply: str, value: float | None) -> None:
    assert read_measure(reply, "mm") == value


def test_every_kind_of_number_is_read_as_it_is_meant() -> None:
    said = number_replies(1, 3000, "mm")
    for each in said:
        assert read_measure(each.text, "mm") == each.meant, each
    kinds = Counter(each.kind for each in said)
    assert kinds.keys() > MEANT.keys()
    assert min(kinds.values()) > 50


@pytest.mark.parametrize("unit", ["mm", "HU", "cm", "cc", "%"])
@pytest.mark.parametrize("number", sample_and_all(20_000, 100_000))
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
