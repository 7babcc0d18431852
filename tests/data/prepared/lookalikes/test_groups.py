"""Tests that groups of look-alikes are the connected components of all pairs, at any size."""

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.prepared import lookalikes
from medtune.data.prepared.lookalikes import lookalike_groups, nearest_lookalikes, pairs_across

# Few bits, so that many pairs look alike and chains come about.
LOOKS = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(0, 255), max_size=30)
SPLITS_OF = st.sampled_from(("train", "val", "test"))


def alike(one: int, other: int, most: int) -> bool:
    return (one ^ other).bit_count() <= most


@given(LOOKS, st.integers(0, 3))
def test_images_are_in_one_group_if_look_alikes_lead_from_one_to_the_other(looks: dict[str, int], most: int) -> None:
    found = lookalike_groups(looks, max_distance=most)
    pairs = [(one, other) for one, other in combinations(sorted(looks), 2) if alike(looks[one], looks[other], most)]
    assert found.num_pairs == len(pairs)
    own = {name: {name} for name in looks}
    for one, other in pairs:
        joined = own[one] | own[other]
        own.update(dict.fromkeys(joined, joined))
    assert found.group_of == {name: min(members) for name, members in own.items()}
    assert found.num_groups == len({min(members) for members in own.values()})
    assert found.largest == max(map(len, own.values()), default=0)
    assert found.several == {name: min(members) for name, members in own.items() if len(members) > 1}


@given(LOOKS, st.data())
def test_pairs_are_counted_across_splits(looks: dict[str, int], data: st.DataObject) -> None:
    place_of = {name: data.draw(SPLITS_OF) for name in looks}
    wanted = [
        (one, other)
        for one, other in combinations(looks, 2)
        if alike(looks[one], looks[other], 2) and place_of[one] != place_of[other]
    ]
    found = lookalike_groups(looks, max_distance=2)
    assert pairs_across(looks, found, place_of, max_distance=2) == len(wanted)


@given(LOOKS, LOOKS)
def test_each_image_gets_its_nearest_look_alike(looks: dict[str, int], others: dict[str, int]) -> None:
    wanted = {}
    for name, look in looks.items():
        distances = {other: (look ^ code).bit_count() for other, code in others.items()}
        nearest = min(sorted(distances), key=distances.__getitem__, default=None)
        if nearest is not None and distances[nearest] <= 2:
            wanted[name] = nearest, distances[nearest]
    found = nearest_lookalikes(looks, others, max_distance=2)
    assert {pair.image: (pair.other, pair.distance) for pair in found} == wanted
    assert [pair.distance for pair in found] == sorted(pair.distance for pair in found)


def test_a_film_of_many_like_frames_is_joined_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookalikes, "_MAX_EDGES", 50)
    looks = {f"{number:03}": (number % 2) * (2**40 - 1) for number in range(200)}
    found = lookalike_groups(looks)
    assert found.num_pairs == 2 * (100 * 99 // 2)
    assert set(found.group_of.values()) == {"000", "001"}


def test_twenty_thousand_images_take_no_time() -> None:
    codes = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    # One bit in every byte is turned over in each hundredth, which is at the limit.
    codes[1::100] = codes[::100] ^ np.uint64(0x0101010101010101)
    looks = {f"{number:05}": int(code) for number, code in enumerate(codes)}
    start = time.perf_counter()
    found = lookalike_groups(looks)
    assert time.perf_counter() - start < 10
    assert (found.num_pairs, found.num_groups, found.largest) == (200, 19_800, 2)
