"""Questions with lettered options inside."""

import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.raw.lettered_options import (
    QuestionAndOptions,
    choice_question,
    find_option,
    options_layout,
    split_options,
)
from medtune.data.types import Question

LABELS = ("a", "b", "c", "d", "e", "f")


def _ask(question_id: str = "q", answer: str = "a", num_options: int | None = None, seed: int = 0) -> Question:
    return choice_question(
        question_id,
        media_id="m",
        text="Which?",
        answer=answer,
        labels=LABELS,
        patient_id="p",
        facets={"task": "t"},
        seed=seed,
        num_options=num_options,
    )


@given(st.text(min_size=1), st.sampled_from(LABELS), st.integers(2, 9), st.integers(0, 2**31))
def test_options_hold_the_answer_and_differ(question_id: str, answer: str, num_options: int, seed: int) -> None:
    question = _ask(question_id, answer, num_options, seed)
    assert answer in question.options
    assert len(set(question.options)) == len(question.options) == min(num_options, len(LABELS))
    assert set(question.options) <= set(LABELS)
    assert question == _ask(question_id, answer, num_options, seed)


def test_answer_comes_in_every_place_about_equally_often() -> None:
    places = Counter(_ask(f"q{n}", num_options=4).options.index("a") for n in range(4000))
    assert all(900 < places[place] < 1100 for place in range(4))


def test_every_label_is_a_distractor_about_equally_often() -> None:
    shown = Counter(option for n in range(5000) for option in _ask(f"q{n}", num_options=4).options)
    assert all(2800 < shown[label] < 3200 for label in LABELS[1:])


def test_order_depends_on_the_seed() -> None:
    assert any(_ask(f"q{n}", seed=0).options != _ask(f"q{n}", seed=1).options for n in range(5))


def test_order_is_the_same_in_another_process() -> None:
    code = "from test_choices import _ask; print(_ask('q', num_options=4).options)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert run.stdout.strip() == str(_ask("q", num_options=4).options)


def test_order_is_pinned_across_versions() -> None:
    assert _ask("q").options == ("c", "d", "f", "e", "b", "a")


def test_answer_that_is_no_label_is_refused() -> None:
    with pytest.raises(ValueError, match="the answer is not among the 6 options"):
        _ask(answer="z")


def test_repeated_options_and_single_options_are_refused() -> None:
    ask = partial(choice_question, "q", media_id="m", text="?", answer="a", patient_id="p", facets={}, seed=0)
    with pytest.raises(ValueError, match="'a' come more than once"):
        ask(labels=("a", "b", "a"))
    with pytest.raises(ValueError, match="at least two options"):
        ask(labels=("a",))


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
