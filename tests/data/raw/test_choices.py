import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.raw.lettered_options import choice_question
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
    with pytest.raises(ValueError, match="answer 'z' is not among the options 'a', 'b'"):
        _ask(answer="z")


def test_repeated_options_and_single_options_are_refused() -> None:
    ask = partial(choice_question, "q", media_id="m", text="?", answer="a", patient_id="p", facets={}, seed=0)
    with pytest.raises(ValueError, match="'a' come more than once"):
        ask(labels=("a", "b", "a"))
    with pytest.raises(ValueError, match="at least two options"):
        ask(labels=("a",))
