"""Chooses the pieces of work that a probe measures, and estimates from them what the whole takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from medtune.eval.statistics.intervals import t_quantile


@dataclass(frozen=True, slots=True)
class Chosen:
    """The items that are measured, by their places among all.

    Attributes:
        warm_up: Those that are done first and not counted.
        pieces: Those that are measured, piece by piece.
        is_all: Whether every item is measured.
    """

    warm_up: tuple[int, ...]
    pieces: tuple[tuple[int, ...], ...]
    is_all: bool


def choose(sizes: Sequence[int], *, in_piece: int, pieces: int, seed: int) -> Chosen:
    """Returns pieces that are spread evenly over the items, from the smallest to the largest.

    The items are taken in the order of their sizes at equal distances from a drawn start, so that each has the same
    chance to be measured, and dealt out to the pieces in turn. The mean over the measured ones therefore estimates the
    mean over all without bias, and the pieces differ as far as chance lets them. Few items are all measured, in their
    own order and without a warm-up.

    Args:
        sizes: The size of each item, e.g. its number of requests.
        in_piece: Number of items in a piece, at least 1.
        pieces: Number of measured pieces, at least 2; one more is the warm-up.
        seed: Seed of the start and of the dealing.

    Example:
        >>> choose([1] * 5, in_piece=2, pieces=3, seed=0)
        Chosen(warm_up=(), pieces=((0, 1), (2, 3), (4,)), is_all=True)
        >>> few = choose(range(100), in_piece=2, pieces=3, seed=0)
        >>> len(few.warm_up), [len(piece) for piece in few.pieces], few.is_all
        (2, [2, 2, 2], False)

    Source:
        Systematic sampling with a fractional interval and interpenetrating subsamples: Cochran, Sampling Techniques
        (1977), chapter 8.
    """
    wanted = in_piece * (pieces + 1)
    if len(sizes) <= wanted:
        whole = range(len(sizes))
        return Chosen((), tuple(tuple(whole[at : at + in_piece]) for at in whole[::in_piece]), True)
    draw = np.random.default_rng(seed)
    by_size = sorted(range(len(sizes)), key=lambda place: (sizes[place], place))
    start, turn = float(draw.random()), int(draw.integers(pieces + 1))
    taken = [by_size[math.floor((start + number) * len(sizes) / wanted)] for number in range(wanted)]
    dealt = [tuple(sorted(taken[(turn + place) % (pieces + 1) :: pieces + 1])) for place in range(pieces + 1)]
    return Chosen(dealt[0], tuple(dealt[1:]), False)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of some work.

    Attributes:
        seconds: The estimate.
        half_s: Half the width of its 95 % interval; 0 where all of the work was measured.
    """

    seconds: float
    half_s: float = 0.0

    def times(self, factor: float) -> Cost:
        """Returns the cost of `factor` times the work."""
        return Cost(self.seconds * factor, self.half_s * factor)


def together(costs: Iterable[Cost]) -> Cost:
    """Returns the cost of several works, which were measured independently of one another.

    Example:
        >>> together([Cost(10, 3), Cost(20, 4)])
        Cost(seconds=30, half_s=5.0)
    """
    each = list(costs)
    return Cost(sum(cost.seconds for cost in each), math.hypot(*(cost.half_s for cost in each)))


@dataclass(frozen=True, slots=True)
class Pieces:
    """Work that was measured in pieces.

    Attributes:
        seconds: The seconds of each piece.
        units: The number of units in each piece, e.g. of images.
        share: The share of all units that the pieces hold; 1 if nothing is left to be estimated.
    """

    seconds: tuple[float, ...]
    units: tuple[int, ...]
    share: float = 0.0

    @property
    def rates_s(self) -> list[float]:
        """The seconds of a unit in each piece."""
        return [seconds / units for seconds, units in zip(self.seconds, self.units, strict=True)]

    @property
    def unit(self) -> Cost:
        """The cost of a unit: the ratio of the sums, with the t interval of the pieces' deviations from it.

        Example:
            >>> Pieces((2.0, 4.0), (1, 1)).unit.seconds
            3.0
        """
        number, units = len(self.seconds), sum(self.units)
        if not units:
            return Cost(0.0)
        mean = sum(self.seconds) / units
        if number < 2 or self.share >= 1:
            return Cost(mean)
        apart = sum((s - mean * n) ** 2 for s, n in zip(self.seconds, self.units, strict=True))
        error = math.sqrt(apart / (number * (number - 1)) * max(0.0, 1 - self.share)) * number / units
        return Cost(mean, t_quantile(number - 1) * error)

    def all(self, units: float) -> Cost:
        """Returns the cost of so many units; what was measured as a whole is not scaled."""
        is_whole = self.share >= 1 and units == sum(self.units)
        return Cost(sum(self.seconds)) if is_whole else self.unit.times(units)


NOTHING = Pieces((), (), 1.0)
"""No work."""
