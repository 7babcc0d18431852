"""Tests that balancing asks frequent answers equally often in an epoch, and all questions over several epochs."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data.types import AnswerKind, MediaGroup, MediaRef, Question
from medtune.trainer.training.sampling import Balanced


def _groups(answers: list[list[tuple[str, str]]]) -> list[MediaGroup]:
    """Returns one media group for each list of (subtype, answer); every question has options."""
    return [
        MediaGroup(
            str(number),
            (MediaRef(Path("x.png")),),
            tuple(
                Question(
                    f"{number}-{i}", str(number), "?", ("yes", "no", "maybe"), answer, "choice", "p",
                    {"task": "t", "subtype": subtype},
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


UNEVEN = _groups([[("a", "no"), ("b", "yes")]] * 9 + [[("a", "yes"), ("b", "no")]] * 3)


def _free(answers: Iterable[str], answer_kind: AnswerKind = "text") -> list[MediaGroup]:
    """Returns one question without options for each answer, each about a media item of its own."""
    asked = {"task": "t", "subtype": "s"}
    return [
        MediaGroup(
            str(n), (MediaRef(Path("x.png")),), (Question(str(n), str(n), "?", (), said, answer_kind, "p", asked),)
        )
        for n, said in enumerate(answers)
    ]


def _sentences(count: int) -> list[str]:
    return [f"Turn the probe by {number} degrees." for number in range(count)]


def test_every_answer_of_a_subtype_is_asked_equally_often() -> None:
    counts = _counts(Balanced(UNEVEN, strength=1.0, seed=0), 0)
    assert counts == {("a", "no"): 3, ("a", "yes"): 3, ("b", "yes"): 3, ("b", "no"): 3}


def test_free_answers_are_balanced_however_they_are_written() -> None:
    groups = _free(["no"] * 50 + ["No."] * 47 + ["Yes"] * 3)
    counts = _counts(Balanced(groups, strength=1.0, seed=0), 0)
    assert counts["s", "no"] + counts["s", "No."] == 3 == counts["s", "Yes"]
    groups = _free(["liver"] * 60 + ["spleen"] * 30 + ["left kidney"] * 20)
    assert set(_counts(Balanced(groups, strength=1.0, seed=0), 0).values()) == {20}


def test_free_sentences_of_their_own_starve_nothing() -> None:
    groups = _free([*_sentences(80), *["The liver is normal."] * 40, *["Tilt it."] * 2])
    assert len(_asked(Balanced(groups, strength=1.0, seed=0), 0)) == 122
    assert len(_asked(Balanced(_free(_sentences(50)), strength=1.0, seed=0), 0)) == 50


def test_a_frequent_sentence_is_asked_as_often_as_all_the_others_together() -> None:
    groups = _free([*["No abnormality."] * 500, *_sentences(40), *["A cyst."] * 2])
    counts = _counts(Balanced(groups, strength=1.0, seed=0), 0)
    assert (counts["s", "No abnormality."], counts.total()) == (42, 84)


def test_zero_is_a_frequent_number_and_a_measure_is_not() -> None:
    measured = [f"{number}.5" for number in range(30)]
    groups = _free([*["0"] * 60, *["0.0"] * 40, *measured], "number")
    counts = _counts(Balanced(groups, strength=1.0, seed=0), 0)
    assert counts["s", "0"] + counts["s", "0.0"] == 30
    assert all(counts["s", number] == 1 for number in measured)


def test_an_answer_that_hardly_occurs_starves_no_other() -> None:
    groups = _groups([[("a", "yes"), ("a", "no")]] * 100 + [[("a", "maybe")]] * 2)
    assert len(_asked(Balanced(groups, strength=1.0, seed=0), 0)) == 202


def test_nothing_is_forgotten_over_the_epochs() -> None:
    balanced = Balanced(UNEVEN, strength=1.0, seed=0)
    seen = Counter(q.id for epoch in range(3) for q in _asked(balanced, epoch))
    assert set(seen) == {q.id for group in UNEVEN for q in group.questions}
    assert {seen[q.id] for group in UNEVEN[:9] for q in group.questions} == {1}


def test_strength_zero_asks_everything_and_a_half_thins_in_part() -> None:
    assert len(_asked(Balanced(UNEVEN, strength=0.0, seed=0), 0)) == 24
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
    frequent = [size for size in sizes if size**2 >= sum(sizes)]
    rare = sum(sizes) - sum(frequent)
    least = min([*frequent, rare] if len(frequent) == 1 and rare else frequent, default=0)
    for i, size in enumerate(sizes):
        thinned = max(1, round(least**strength * size ** (1 - strength)))
        assert counts["a", answers[i]] == (thinned if size in frequent else size)


def test_strength_is_checked() -> None:
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        Balanced(UNEVEN, strength=2, seed=0)
