import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict

CELLS = ("upper left", "center", "center left", "not visible", "lower right")
CLASSES = ("benign", "malignant", "normal")
AROUND = st.text(" \n\"'*_.,:;!()[]`", max_size=4)
WORDS = st.from_regex(r"[a-zA-Z0-9]+( [a-zA-Z0-9]+){0,2}", fullmatch=True)
OPTION_SETS = st.lists(WORDS, min_size=1, max_size=6, unique_by=lambda text: " ".join(text.casefold().split()))


def asked(*options: str) -> Question:
    return Question("q", "m", "Which?", options, options[0], "choice", "p")


def test_parse_choice_without_options_reads_nothing() -> None:
    assert parse_choice("A", Question("q", "m", "Describe it.", (), "a mass", "text", "p")) is None


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("benign", "benign"),
        ("B", "malignant"),
        ("Benign", None),
        ("benign.", None),
        (" B", None),
        ("b", None),
        ("", None),
    ],
)
def test_parse_choice_strict_wants_equality(reply: str, wanted: str | None) -> None:
    assert parse_choice_strict(reply, asked(*CLASSES)) == wanted


@given(st.text(), st.lists(st.text(), min_size=1, max_size=6))
def test_parsers_return_an_option_or_none_whatever_comes(reply: str, options: list[str]) -> None:
    for parser in (parse_choice, parse_choice_strict):
        assert parser(reply, asked(*options)) in {*options, None}


@given(
    st.lists(
        st.sampled_from(
            ["Answer", ":", " is ", "A", "(B)", "C.", "\n", "not ", "center", "center left", "option ", "**"]
        ),
        max_size=12,
    )
)
def test_parse_choice_returns_an_option_or_none_on_likely_pieces(pieces: list[str]) -> None:
    assert parse_choice("".join(pieces), asked(*CELLS)) in {*CELLS, None}


@given(OPTION_SETS, AROUND, AROUND, st.sampled_from([str, str.upper, str.lower, str.title]), st.data())
def test_every_option_parses_to_itself(
    options: list[str], before: str, after: str, case: object, data: st.DataObject
) -> None:
    option = data.draw(st.sampled_from(options))
    assert callable(case)
    assert parse_choice(f"{before}{case(option)}{after}", asked(*options)) == option


@given(OPTION_SETS, AROUND, AROUND, st.data())
def test_every_letter_parses_to_its_option(options: list[str], before: str, after: str, data: st.DataObject) -> None:
    assume(all(len(option) > 1 for option in options))
    place = data.draw(st.integers(0, len(options) - 1))
    assert parse_choice(f"{before}{'ABCDEF'[place]}{after}", asked(*options)) == options[place]
