"""Which media groups each optimizer step takes, whatever the number of devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler


@lru_cache(maxsize=4)
def _shuffled(num_groups: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(num_groups)


@dataclass(frozen=True, slots=True)
class StepOrder:
    """Maps (step, accumulated part, rank) to indices of media groups.

    The groups of a step depend on the seed alone: devices and micro-batches only share them out.

    Attributes:
        num_groups: In the train split.
        batch_groups: Per optimizer step.
        micro_batch_groups: Per forward pass of one device.
        world_size: Devices.
    """

    num_groups: int
    batch_groups: int
    micro_batch_groups: int
    world_size: int
    seed: int

    @property
    def accumulate(self) -> int:
        """Forward passes of each device per optimizer step."""
        return math.ceil(self.batch_groups / (self.micro_batch_groups * self.world_size))

    def step_groups(self, step: int) -> list[int]:
        """Returns the groups of one step: the next ones of an endless row of shuffled epochs."""
        first = step * self.batch_groups
        return [self._group_at(place) for place in range(first, first + self.batch_groups)]

    def _group_at(self, place: int) -> int:
        epoch, index = divmod(place, self.num_groups)
        return int(_shuffled(self.num_groups, self.seed, epoch)[index])

    def micro_batch(self, step: int, part: int, rank: int) -> list[int]:
        """Returns one device's groups of one forward pass; empty where the step has too few for all devices."""
        share = self.micro_batch_groups
        first = (part * self.world_size + rank) * share
        return self.step_groups(step)[first : first + share]


class ResumableOrder(Sampler[int]):
    """Yields the running numbers of this device's forward passes, from the step that `start_step` gives when asked.

    Its length is that of the whole training, since Lightning counts the skipped ones as done.
    """

    def __init__(self, *, max_steps: int, accumulate: int, start_step: Callable[[], int]) -> None:
        self._total = max_steps * accumulate
        self._accumulate = accumulate
        self._start_step = start_step

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start_step() * self._accumulate, self._total))

    def __len__(self) -> int:
        return self._total
