"""Tests which free texts are the same after normalisation, and which stay different."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from medtune.eval.scoring.normalised_text import normalised, same_text


@pytest.mark.parametrize(
    ("said", "truth"),
    [
        ("The left lung.", "left lung"),
        ("LEFT LUNG", "a left lung"),
        ("an X-Ray", "xray"),
        ("x_ray.", "X ray"),
        ("two", "2"),
        ("twenty-one lesions", "21 lesions"),
        ("None.", "0"),
        ("1,000 ml", "one thousand millilitres"),
        ("5cm", "5 centimeters"),
        ("2.50 cm", "2.5cm"),
        (".5", "0.5"),
        ("50 percent", "50%"),
        ("10–12 mm", "10 to 12 mm"),
        ("T2-weighted", "t2 weighted"),
        ("Crohn's disease", "Crohn’s disease"),
        ("heart & lung", "heart and lung"),
        ("**liver**", "liver"),
        ("肝脏。", "肝脏"),
        ("hepatitis A", "Hepatitis a."),
        ("A", "a"),
    ],
)
def test_other_ways_to_write_an_answer_are_the_same(said: str, truth: str) -> None:
    assert same_text(said, truth)
    assert same_text(truth, said)


@pytest.mark.parametrize(
    ("said", "truth"),
    [
        ("abnormal", "normal"),
        ("not normal", "normal"),
        ("no mass", "mass"),
        ("nodule", "no"),
        ("1.5", "15"),
        ("1.5 cm", "1 5 cm"),
        ("-5", "5"),
        ("HER2+", "HER2-"),
        ("<5 mm", ">5 mm"),
        ("<5 mm", "5 mm"),
        ("50%", "50"),
        ("5 cm", "5 mm"),
        ("1/2", "12"),
        ("one two", "3"),
        ("hepatitis A", "hepatitis"),
        ("vitamin a deficiency", "vitamin deficiency"),
        ("A and B", "B"),
        ("A, B", "B"),
        ("A", ""),
        ("?", "!"),
        ("", "liver"),
        ("left lung", "lung left"),
    ],
)
def test_other_answers_stay_different(said: str, truth: str) -> None:
    assert not same_text(said, truth)
    assert not same_text(truth, said)


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_the_number(number: int) -> None:
    assert normalised(f"about {num2words(number)} cells") == f"about {number} cells"


@given(st.text())
def test_any_text_is_the_same_as_itself_in_other_capitals_and_blanks(text: str) -> None:
    assert same_text(f"  {text}\n", text)
    assert normalised(text) == " ".join(normalised(text).split())


@given(st.lists(st.text("bcdgkmprsBCDGKMPRS", min_size=3) | st.sampled_from(("the", "an")), max_size=6))
def test_plain_words_are_normalised_as_squad_does(words: list[str]) -> None:
    text = f"{' '.join(words)} lungs!"
    assert normalised(text) == _squad(text)


def _squad(text: str) -> str:
    """Normalises a text by the steps that SQuAD's paper names: lower case, no punctuation, no articles."""
    plain = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(word for word in plain.split() if word not in ("a", "an", "the"))
