"""Maps (step, forward pass, rank) to draws, with micro-batches that a budget of tokens divides."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from medtune.trainer.training.division.budget import Lengths, TokenBudget, dealt
from medtune.trainer.training.sampling import Draw, StepOrder

_SHOWN_STEPS = 100
"""The number of steps, the first ones, over which the share of padding is counted."""


class Filling(NamedTuple):
    """How a budget is filled.

    Attributes:
        budget: The budget in tokens.
        steps: The number of steps over which it was counted.
        padding: The share of the computed tokens that is padding.
        largest: The most tokens of a forward pass that the budget holds.
        alone: The number of groups that are longer than the budget; each is a micro-batch of its own.
        longest: The tokens of the longest such group; 0 where there is none.
    """

    budget: int
    steps: int
    padding: float
    largest: int
    alone: int
    longest: int

    def said(self) -> str:
        """Returns lines for the terminal."""
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
        plain: The order of the groups.
        budget: The budget.
        lengths: Returns the tokens of each tree of a drawn group.
        steps: The number of optimizer steps of the stage.
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
