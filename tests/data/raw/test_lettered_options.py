"""Questions with lettered options inside."""

from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.raw.lettered_options import QuestionAndOptions, find_option, options_layout, split_options

# Words that end in no mark of an option.
WORDS = st.text("abcdefg hij-123,'µ", min_size=1, max_size=30).map(str.strip).filter(bool)
STYLES = ("\n{0}. {1}", "\n{0}) {1}", "\n({0}) {1}", "\n  {0}: {1}", " {0}: {1}", " ({0}) {1}", " {0}. {1}")


@given(WORDS, st.lists(WORDS, min_size=2, max_size=6), st.sampled_from(STYLES))
def test_every_style_is_taken_apart(text: str, options: list[str], style: str) -> None:
    written = text + "".join(style.format(ascii_uppercase[n], option) for n, option in enumerate(options))
    assert split_options(written) == QuestionAndOptions(text, tuple(options))
    gaps = [f"{{{letter}}}" for letter in ascii_uppercase[: len(options)]]
    layout = "{question}" + "".join(style.format(ascii_uppercase[n], gap) for n, gap in enumerate(gaps))
    assert options_layout(written) == layout


def test_a_layout_keeps_the_blanks_around_each_part() -> None:
    assert options_layout(" Why?  \nA.  b A \n\nB.\tno \n") == " {question}  \nA.  {A} \n\nB.\t{B} \n"
    assert options_layout("Why? A: no") is None


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = split_options(text)
    assert found is None or len(found.options) >= 2


@pytest.mark.parametrize("text", ["", "Which organ?", "Which?\nA. liver", "Which?\nB. liver\nC. colon", "plan A. good"])
def test_without_two_letters_there_is_nothing_to_choose(text: str) -> None:
    assert split_options(text) is None


def test_lines_come_before_letters_inside_of_them() -> None:
    text = "Why?\nA. vitamin A: and B: here\nB. no"
    assert split_options(text) == QuestionAndOptions("Why?", ("vitamin A: and B: here", "no"))


@pytest.mark.parametrize(
    ("answer", "option"),
    [("b", "two"), ("B.", "two"), ("(A)", "one"), ("two", "two"), ("C", None), ("", None), ("1", None), ("AB", None)],
)
def test_answer_is_a_letter_or_an_option(answer: str, option: str | None) -> None:
    assert find_option(answer, ("one", "two")) == option
