"""Divides media groups, of which each has trees of known lengths, into micro-batches of similar cost.

The cost of a micro-batch is what its rows compute: the number of rows times the longest row, padding included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from medtune.models.sequence.packing import spread

Lengths = Sequence[int]
"""The number of tokens of each tree of a media group."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The most tokens that the rows of a micro-batch compute, padding included.

    Attributes:
        tokens: The budget. A group that is longer is a micro-batch of its own.
        row_tokens: Approximate number of tokens up to which trees are packed into one row; 0 gives each tree a row of
            its own.
    """

    tokens: int
    row_tokens: int = 0

    def computed(self, groups: Sequence[Lengths]) -> int:
        """Returns the tokens that the rows of some groups compute together, given the lengths of each group's trees."""
        lengths = [length for group in groups for length in group]
        rows = spread(lengths, row_tokens=self.row_tokens)
        return len(rows) * max((sum(lengths[number] for number in row) for row in rows), default=0)

    def fewest(self, groups: Sequence[Lengths]) -> int:
        """Returns the number of micro-batches into which groups are divided, the fullest that the budget allows."""
        return len(self._runs(groups, _by_length(groups), self.tokens))

    def divided(self, groups: Sequence[Lengths], count: int) -> list[list[int]]:
        """Returns the micro-batches, the most costly first, as the numbers of their groups.

        Groups of similar length come together. There are exactly `count` micro-batches, or one for each group where
        there are fewer groups, and the most costly one computes about as little as that number allows.

        Args:
            groups: The lengths of each group's trees.
            count: The number of micro-batches, at least `fewest(groups)`.
        """
        order = _by_length(groups)
        runs = self._runs(groups, order, self.tokens)
        if len(runs) > count:
            raise ValueError(
                f"{len(groups)} groups need {len(runs)} micro-batches of {self.tokens} tokens, not {count}"
            )
        low, high = 0, self.tokens
        while high - low > 1:
            cap = (low + high) // 2
            if len(tried := self._runs(groups, order, cap)) <= count:
                runs, high = tried, cap
            else:
                low = cap
        cost = partial(self._cost, groups)
        while len(runs) < count and (wide := [run for run in runs if len(run) > 1]):
            run = max(wide, key=cost)
            place = runs.index(run)
            runs[place : place + 1] = [run[: len(run) // 2], run[len(run) // 2 :]]
        return [sorted(run) for run in sorted(runs, key=cost, reverse=True)]

    def _cost(self, groups: Sequence[Lengths], run: Sequence[int]) -> int:
        return self.computed([groups[number] for number in run])

    def _runs(self, groups: Sequence[Lengths], order: Sequence[int], cap: int) -> list[list[int]]:
        runs, first = [], 0
        while first < len(order):
            stop = _last(first + 1, len(order), partial(self._fits, groups, order, cap, first))
            runs.append(list(order[first:stop]))
            first = stop
        return runs

    def _fits(self, groups: Sequence[Lengths], order: Sequence[int], cap: int, first: int, stop: int) -> bool:
        return self._cost(groups, order[first:stop]) <= cap


def dealt(micro_batches: Sequence[_T], *, number: int, rank: int, world_size: int) -> _T | None:
    """Returns the micro-batch of one forward pass on one device; None where there are too few.

    Devices compute micro-batches of similar cost at the same time, because divided weights let the fastest wait. The
    one with the larger micro-batch has the smaller one in the next pass.

    Args:
        micro_batches: The micro-batches of a step, the most costly first.
        number: The number of the forward pass in the step, from 0.
        rank: The number of the device, from 0.
        world_size: The number of devices.
    """
    place = number * world_size + (rank if number % 2 == 0 else world_size - 1 - rank)
    return micro_batches[place] if place < len(micro_batches) else None


def _by_length(groups: Sequence[Lengths]) -> list[int]:
    return sorted(range(len(groups)), key=lambda number: (-max(groups[number]), -sum(groups[number])))


def _last(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Returns the largest number from `low` to `high` that fits; `low` always counts as one that fits.

    Each number above `low` that is returned was tried, even where fitting is not monotone.
    """
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
