"""Answers take turns: equally often in an epoch, and none forgotten over several."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data.balance import Balanced
from medtune.data.types import MediaGroup, MediaRef, Question


def _groups(answers: list[list[tuple[str, str]]]) -> list[MediaGroup]:
    """One group per list; an item is (subtype, answer), with "" for a free answer."""
    return [
        MediaGroup(
            str(number),
            MediaRef(Path("x.png")),
            tuple(
                Question(
                    f"{number}-{i}", str(number), "?", ("yes", "no", "maybe") if answer else (), answer or "words",
                    "choice" if answer else "text", "p", {"task": "t", "subtype": subtype},
                )
                for i, (subtype, answer) in enumerate(asked)
            ),
        )
        for number, asked in enumerate(answers)
    ]  # fmt: skip


def _asked(balanced: Balanced, epoch: int) -> list[Question]:
    return [q for number in balanced.groups_in(epoch) for q in balanced.group(number, epoch).questions]


def _counts(balanced: Balanced, epoch: int) -> Counter[tuple[str, str]]:
    return Counter((q.facets["subtype"], q.answer) for q in _asked(balanced, epoch))


UNEVEN = _groups([[("a", "no"), ("b", "yes")]] * 9 + [[("a", "yes"), ("b", "no"), ("b", "")]] * 3)


def test_every_answer_of_a_subtype_is_asked_equally_often() -> None:
    counts = _counts(Balanced(UNEVEN, strength=1.0, seed=0), 0)
    assert counts == {("a", "no"): 3, ("a", "yes"): 3, ("b", "yes"): 3, ("b", "no"): 3, ("b", "words"): 3}


def test_nothing_is_forgotten_over_the_epochs() -> None:
    balanced = Balanced(UNEVEN, strength=1.0, seed=0)
    seen = Counter(q.id for epoch in range(3) for q in _asked(balanced, epoch))
    assert set(seen) == {q.id for group in UNEVEN for q in group.questions}
    assert {seen[q.id] for group in UNEVEN[:9] for q in group.questions} == {1}


def test_strength_zero_asks_everything_and_a_half_thins_in_part() -> None:
    assert len(_asked(Balanced(UNEVEN, strength=0.0, seed=0), 0)) == 27
    assert _counts(Balanced(UNEVEN, strength=0.5, seed=0), 4)["a", "no"] == round(3**0.5 * 9**0.5)


def test_groups_that_are_asked_nothing_are_left_out() -> None:
    balanced = Balanced(UNEVEN, strength=1.0, seed=0)
    for epoch in range(5):
        assert all(balanced.group(number, epoch).questions for number in balanced.groups_in(epoch))
    assert any(len(balanced.groups_in(epoch)) < len(UNEVEN) for epoch in range(5))


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3), strength=st.floats(0, 1), epoch=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_an_epoch_asks_exactly_what_the_strength_says(sizes: list[int], strength: float, epoch: int) -> None:
    answers = ("yes", "no", "maybe")
    groups = _groups([[("a", answers[i])] for i, size in enumerate(sizes) for _ in range(size)])
    counts = _counts(Balanced(groups, strength=strength, seed=1), epoch)
    for i, size in enumerate(sizes):
        assert counts["a", answers[i]] == max(1, round(min(sizes) ** strength * size ** (1 - strength)))


def test_strength_is_checked() -> None:
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        Balanced(UNEVEN, strength=2, seed=0)
