"""Divides media groups, of which each has trees of known lengths, into micro-batches of similar cost.

The cost of a micro-batch is what its rows compute: the number of rows times the longest row, padding included.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

from medtune.models.sequence.packing import spread
from medtune.trainer.training.sampling import Draw, StepOrder

Lengths = Sequence[int]
"""The number of tokens of each tree of a media group."""
_T = TypeVar("_T")

_SHOWN_STEPS = 100
"""The number of steps, the first ones, over which the share of padding is counted."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The most tokens that the rows of a micro-batch compute, padding included."""

    tokens: int  # The budget. A group that is longer is a micro-batch of its own.
    # Approximate number of tokens up to which trees are packed into one row; 0 gives each tree a row of its own.
    row_tokens: int = 0

    def computed(self, groups: Sequence[Lengths]) -> int:
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


class Filling(NamedTuple):
    budget: int  # The budget in tokens.
    steps: int  # The number of steps over which it was counted.
    padding: float  # The share of the computed tokens that is padding.
    largest: int  # The most tokens of a forward pass that the budget holds.
    alone: int  # The number of groups that are longer than the budget; each is a micro-batch of its own.
    longest: int  # The tokens of the longest such group; 0 where there is none.

    def said(self) -> str:
        lines = (
            f"budget     train.micro_batch_tokens {self.budget}: the largest pass within it computes {self.largest} "
            f"tokens; {self.padding:.0%} padding over {self.steps} steps"
        )
        if not self.alone:
            return lines
        return f"{lines}\n           {self.alone} groups are longer, up to {self.longest} tokens: each is a pass alone"


class TokenOrder:
    """The order of a stage whose micro-batches are divided by a budget of tokens.

    The groups of a step are those of the plain order. The number of forward passes of a step is the same for all steps
    of the stage, because strategies want that: the smallest with which every step keeps the budget. A step divides its
    groups into that many micro-batches on each device, so that none computes for nothing; only where it has fewer
    groups do some devices borrow one.

    Args:
        lengths: Returns the tokens of each tree of a drawn group.
    """

    def __init__(
        self, plain: StepOrder, budget: TokenBudget, lengths: Callable[[Draw], Lengths], *, steps: int | None
    ) -> None:
        self._plain = plain
        self._budget = budget
        self._lengths = lengths
        self._steps = steps
        self._divided: tuple[int, list[list[Draw]]] = (-1, [])
        self.world_size = plain.world_size

    @cached_property
    def accumulate(self) -> int:
        """The number of forward passes of each device per optimizer step; the first use counts the stage's tokens."""
        if self._steps is None:
            raise ValueError(
                "train.micro_batch_tokens needs the number of steps, because all steps have the same number of forward "
                "passes: count the epochs first"
            )
        needed = (self._budget.fewest([*map(self._lengths, self.step_groups(step))]) for step in range(self._steps))
        return math.ceil(max(needed) / self.world_size)

    def step_groups(self, step: int) -> list[Draw]:
        """Returns the groups of one step, which are those of the plain order."""
        return self._plain.step_groups(step)

    def micro_batch(self, step: int, number: int, rank: int) -> list[Draw]:
        """Returns the groups of one forward pass on one device.

        The list is empty if the step has too few groups for all devices.
        """
        return dealt(self.divided(step), number=number, rank=rank, world_size=self.world_size) or []

    def divided(self, step: int) -> list[list[Draw]]:
        """Returns the micro-batches of a step over all devices, the most costly first."""
        if self._divided[0] != step:
            whole = self.step_groups(step)
            numbers = self._budget.divided([*map(self._lengths, whole)], self.accumulate * self.world_size)
            self._divided = (step, [[whole[number] for number in each] for each in numbers])
        return self._divided[1]

    def filling(self) -> Filling:
        """Returns how the first steps fill the budget."""
        steps = range(min(self._steps or 0, _SHOWN_STEPS))
        filled = [[self._lengths(draw) for draw in each] for step in steps for each in self.divided(step)]
        computed = [self._budget.computed(each) for each in filled]
        over = [size for size in computed if size > self._budget.tokens]
        within = [size for size in computed if size <= self._budget.tokens]
        tokens = sum(map(sum, (group for each in filled for group in each)))
        return Filling(
            budget=self._budget.tokens,
            steps=len(steps),
            padding=1 - tokens / sum(computed),
            largest=max(within, default=0),
            alone=len(over),
            longest=max(over, default=0),
        )


GroupOrder = StepOrder | TokenOrder
"""Maps (step, forward pass within the step, rank) to draws of media groups; a step's are the same for any devices."""
