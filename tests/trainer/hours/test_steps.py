"""Tests of what is concluded from the measured steps of a stage."""

import pytest

from medtune.trainer.hours.steps import StageTimes, Validated
from medtune.trainer.hours.work import Cost, Pieces


def times(first: tuple[float, ...], again: tuple[float, ...], from_files: tuple[int, int]) -> StageTimes:
    once = (1,) * len(first)
    return StageTimes(0.0, Pieces(first, once), Pieces(again, once), from_files, (Validated(), Validated()))


def test_volumes_from_files_cost_what_the_cache_saves() -> None:
    """A step takes 2 s, and 3 s for each volume from a file; the first steps read two, the others none."""
    measured = times((8.0, 8.0, 8.0), (2.0, 2.0, 2.0), (6, 0))
    assert measured.all(10, from_files=7).seconds == pytest.approx(10 * 2 + 7 * 3)
    assert measured.all(10, from_files=0).seconds == pytest.approx(20)


def test_changed_volumes_are_read_again_in_every_step() -> None:
    """One of two volumes is changed: the first steps read two from files, and the others one."""
    measured = times((8.0, 8.0), (5.0, 5.0), (4, 2))
    assert measured.all(10, from_files=10 + 4).seconds == pytest.approx(10 * 2 + 14 * 3)


def test_without_a_cache_all_steps_count_alike() -> None:
    measured = times((8.0, 6.0), (2.0, 4.0), (0, 0))
    assert measured.all(10, from_files=0) == Pieces((8.0, 6.0, 2.0, 4.0), (1, 1, 1, 1)).unit.times(10)


def test_a_cache_never_makes_a_step_dearer() -> None:
    assert times((2.0, 2.0), (3.0, 3.0), (4, 0)).all(10, from_files=20) == Cost(30.0)
