"""Tests of the pieces that a probe measures and of what is estimated from them."""

import numpy as np
import pytest

from medtune.trainer.hours.work import Cost, Pieces, choose, together

# Few large items, as where one scan has forty questions and most have one.
SIZES = [1] * 70 + [3] * 20 + [40] * 7


def estimates(sizes: list[int], *, in_piece: int, pieces: int) -> tuple[list[float], list[bool]]:
    """Returns the estimated mean for each of many seeds, and whether the interval held the true one."""
    true, found, held = float(np.mean(sizes)), [], []
    for seed in range(400):
        chosen = choose(sizes, in_piece=in_piece, pieces=pieces, seed=seed)
        took = tuple(float(sum(sizes[place] for place in piece)) for piece in chosen.pieces)
        units = tuple(map(len, chosen.pieces))
        unit = Pieces(took, units, sum(units) / len(sizes)).unit
        found.append(unit.seconds)
        held.append(abs(unit.seconds - true) <= unit.half_s)
    return found, held


def test_the_mean_over_all_items_is_estimated_without_bias() -> None:
    found, held = estimates(SIZES, in_piece=5, pieces=4)
    error = float(np.std(found)) / len(found) ** 0.5
    assert abs(np.mean(found) - np.mean(SIZES)) < 3 * error
    assert np.mean(held) > 0.9
    # As many items from the beginning of the data would be 3.8 times too cheap.
    assert np.mean(SIZES[:20]) < 0.3 * np.mean(SIZES)


def test_the_warm_up_is_no_cheaper_than_the_rest() -> None:
    """It is left out, so that a warm-up of the smallest items would make the estimate too high."""
    warm = [
        np.mean([SIZES[place] for place in choose(SIZES, in_piece=5, pieces=3, seed=seed).warm_up])
        for seed in range(400)
    ]
    assert abs(np.mean(warm) - np.mean(SIZES)) < 3 * np.std(warm) / len(warm) ** 0.5


def test_no_item_is_measured_twice_and_a_seed_decides() -> None:
    chosen = choose(SIZES, in_piece=5, pieces=4, seed=3)
    places = [*chosen.warm_up, *(place for piece in chosen.pieces for place in piece)]
    assert len(places) == len(set(places)) == 25
    assert choose(SIZES, in_piece=5, pieces=4, seed=3) == chosen != choose(SIZES, in_piece=5, pieces=4, seed=4)


@pytest.mark.parametrize("number", [0, 1, 7, 20])
def test_few_items_are_all_measured_once_without_an_interval(number: int) -> None:
    chosen = choose([1] * number, in_piece=5, pieces=3, seed=0)
    assert [place for piece in chosen.pieces for place in piece] == list(range(number))
    whole = Pieces(tuple(map(float, map(len, chosen.pieces))), tuple(map(len, chosen.pieces)), 1.0)
    assert whole.all(number) == Cost(float(number), 0.0)


def test_the_interval_is_that_of_t_and_narrows_with_the_share_that_was_measured() -> None:
    """The reference is scipy's interval of a mean."""
    from scipy import stats

    took = (3.0, 5.0, 4.0, 8.0)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(took), scale=stats.sem(took))
    unit = Pieces(took, (1, 1, 1, 1)).unit
    assert (unit.seconds - unit.half_s, unit.seconds + unit.half_s) == pytest.approx((low, high))
    assert Pieces(took, (1, 1, 1, 1), 0.75).unit.half_s == pytest.approx(unit.half_s / 2)


def test_whole_phases_add_without_an_interval() -> None:
    assert together([Cost(3.0), Cost(4.0)]) == Cost(7.0, 0.0)
