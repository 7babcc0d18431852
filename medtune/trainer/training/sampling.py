"""Draws the media groups of each optimizer step, the same ones for any number of devices."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

_BLOCK = 1024
_KEPT_EPOCHS = 2


class Draw(NamedTuple):
    """A media group at its place in the endless row of all draws.

    Attributes:
        member: The number of the mixture's member.
        group: The number of that member's group.
        epoch: How often that member was gone through before.
        place: The place in the row, counted from 0 over all steps.
    """

    member: int
    group: int
    epoch: int
    place: int


class Epochs(Protocol):
    """A member of a mixture, as epochs of groups."""

    def groups_in(self, epoch: int) -> Sequence[int]:
        """Returns the numbers of the groups that this epoch goes through, at least one."""
        ...


@dataclass(frozen=True, slots=True)
class AllGroups:
    """A member that goes through all its groups in every epoch."""

    num_groups: int

    def groups_in(self, epoch: int) -> Sequence[int]:
        """Returns all numbers."""
        return range(self.num_groups)


class _Block(NamedTuple):
    """The member at each of some places, and which of that member's draws in the block it is."""

    member: NDArray[np.int64]
    number: NDArray[np.int64]


class EndlessRow:
    """The order of all draws: the shuffled epochs of every member of a mixture, mixed by their shares.

    Of 1024 places each member gets its share, to one group more or less. A place depends on the seed alone, so that a
    resumed run, or one with more devices, goes on in the same row.
    """

    def __init__(self, members: Sequence[Epochs], *, shares: Sequence[float] = (1.0,), seed: int) -> None:
        if len(members) != len(shares) or not members or min(shares) <= 0:
            raise ValueError(f"wanted a share above 0 for each of {len(members)} members, got {list(shares)}")
        self._members = members
        self._seed = seed
        self._bounds = np.cumsum(shares) / sum(shares)
        self._before: list[NDArray[np.int64]] = [np.zeros(len(members), dtype=np.int64)]
        self._blocks: dict[int, _Block] = {}
        self._ends: list[list[int]] = [[] for _ in members]
        self._shuffles: dict[tuple[int, int], NDArray[np.int64]] = {}

    def __getitem__(self, place: int) -> Draw:
        """Returns what stands at a place, >= 0."""
        member, number = self._member_at(place)
        epoch, index = self._epoch_at(member, number)
        return Draw(member, int(self._shuffled(member, epoch)[index]), epoch, place)

    def _member_at(self, place: int) -> tuple[int, int]:
        """Returns the member, and how many places of it come before."""
        if len(self._members) == 1:
            return 0, place
        block, offset = divmod(place, _BLOCK)
        while len(self._before) <= block:
            earlier = self._drawn(len(self._before) - 1)
            self._before.append(self._before[-1] + np.bincount(earlier, minlength=len(self._members)))
        if block not in self._blocks:
            drawn = self._drawn(block)
            counts = np.stack([np.cumsum(drawn == member) for member in range(len(self._members))])
            self._blocks = {block: _Block(drawn, counts[drawn, np.arange(_BLOCK)] - 1)}
        here = self._blocks[block]
        member = int(here.member[offset])
        return member, int(self._before[block][member] + here.number[offset])

    def _drawn(self, block: int) -> NDArray[np.int64]:
        """Returns the member of each place of a block: evenly spread points in shuffled order, cut by the shares."""
        rng = np.random.default_rng([self._seed, block, 1])
        points = (rng.permutation(_BLOCK) + rng.random()) / _BLOCK
        return np.minimum(np.searchsorted(self._bounds, points, side="right"), len(self._members) - 1)

    def _epoch_at(self, member: int, number: int) -> tuple[int, int]:
        ends = self._ends[member]
        while not ends or ends[-1] <= number:
            count = len(self._members[member].groups_in(len(ends)))
            ends.append((ends[-1] if ends else 0) + count)
        epoch = bisect_right(ends, number)
        return epoch, number - (ends[epoch - 1] if epoch else 0)

    def _shuffled(self, member: int, epoch: int) -> NDArray[np.int64]:
        found = self._shuffles.get((member, epoch))
        if found is None:
            groups = np.asarray(self._members[member].groups_in(epoch), dtype=np.int64)
            found = groups[np.random.default_rng([self._seed, epoch, member]).permutation(len(groups))]
            self._shuffles = {key: kept for key, kept in self._shuffles.items() if key[1] > epoch - _KEPT_EPOCHS}
            self._shuffles[member, epoch] = found
        return found


@dataclass(frozen=True, slots=True)
class StepOrder:
    """Maps (step, forward pass within the step, rank) to draws of media groups.

    The groups of a step depend on the row alone: devices and micro-batches only share them out.

    Attributes:
        batch_size: Media groups per optimizer step.
        micro_batch_size: Media groups per forward pass of one device.
        world_size: The number of devices.
    """

    row: EndlessRow
    batch_size: int
    micro_batch_size: int
    world_size: int

    @property
    def accumulate(self) -> int:
        """Forward passes of each device per optimizer step."""
        return math.ceil(self.batch_size / (self.micro_batch_size * self.world_size))

    def step_groups(self, step: int) -> list[Draw]:
        """Returns the groups of one step: the next ones of the row."""
        first = step * self.batch_size
        return [self.row[place] for place in range(first, first + self.batch_size)]

    def micro_batch(self, step: int, number: int, rank: int) -> list[Draw]:
        """Returns one device's groups of a step's forward pass; empty where the step has too few for all devices."""
        share = self.micro_batch_size
        first = (number * self.world_size + rank) * share
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
