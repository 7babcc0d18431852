from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.prepared.splits import split_evenly, split_sizes

UNITS = st.lists(st.frozensets(st.sampled_from("abcde"), max_size=3), min_size=3, max_size=60)


@given(UNITS)
def test_sizes_come_out_exactly(units: list[frozenset[str]]) -> None:
    sizes = split_sizes(len(units), (0.7, 0.15, 0.15))
    parts = Counter(split_evenly(units, sizes))
    assert [parts[part] for part in range(3)] == sizes


@given(st.integers(3, 400), st.floats(0.05, 0.9), st.floats(0.1, 0.9))
def test_split_sizes_add_up_and_fill_every_split(num_units: int, train: float, rest: float) -> None:
    fractions = (train, (1 - train) * rest, (1 - train) * (1 - rest))
    sizes = split_sizes(num_units, fractions)
    assert sum(sizes) == num_units
    assert min(sizes) >= 1
    assert all(abs(size - num_units * share) < 2 for size, share in zip(sizes, fractions, strict=True))


def test_each_label_is_spread_by_size() -> None:
    units = [frozenset("a")] * 60 + [frozenset("b")] * 20 + [frozenset("c")] * 20
    parts = split_evenly(units, (70, 15, 15))
    spread = Counter((next(iter(unit)), part) for unit, part in zip(units, parts, strict=True))
    assert [spread["a", part] for part in range(3)] == [42, 9, 9]
    assert [spread["b", part] for part in range(3)] == [14, 3, 3]


def test_rare_label_reaches_the_small_part() -> None:
    units = [frozenset("a")] * 97 + [frozenset("b")] * 3
    kept = [next(iter(unit)) for unit, part in zip(units, split_evenly(units, (4, 96)), strict=True) if part == 0]
    assert sorted(kept) == ["a", "a", "a", "b"]


def test_units_without_labels_and_sizes_that_do_not_add_up() -> None:
    assert split_evenly([frozenset()] * 3, (2, 1)) == [0, 0, 1]
    with pytest.raises(ValueError, match="add up to 2, there are 1 units"):
        split_evenly([frozenset("a")], (1, 1))


def test_too_few_units_for_the_parts() -> None:
    with pytest.raises(ValueError, match="2 units do not fill 3 splits"):
        split_sizes(2, (0.5, 0.3, 0.2))
