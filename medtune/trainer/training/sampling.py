"""Draws the media groups of each step, the same for any number of devices, and the questions that each epoch asks.

A model that is trained on ninety answers "no" and ten answers "yes" can learn to say "no" to everything, and still
scores 0.90; balanced epochs ask no answer only because it is frequent.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data.distributed import DistributedSampler

from medtune.data.seeding import stable_order
from medtune.data.types import MediaGroup, Question

_BLOCK = 1024
_KEPT_EPOCHS = 2


class Draw(NamedTuple):
    """A media group and its place in the endless row of all draws."""

    member: int  # The index of the mixture's member, from 0.
    group: int  # The index of the group in that member, from 0.
    epoch: int  # The number of complete passes through that member before this draw.
    place: int  # The place in the row, counted from 0 over all steps.


@dataclass(frozen=True, slots=True)
class AllGroups:
    """Goes through all groups of a member in every epoch."""

    num_groups: int

    def groups_in(self, epoch: int) -> Sequence[int]:
        return range(self.num_groups)


class _Block(NamedTuple):
    """A block of consecutive places in the row."""

    member: NDArray[np.int64]
    number: NDArray[np.int64]  # For each place, the number of earlier draws of the same member in this block.


class EndlessRow:
    """The endless order of all draws: the shuffled epochs of every member of a mixture, mixed by the members' shares.

    Of each 1024 places a member gets its share, exact to one group. The draw at a place depends only on the members,
    the shares and the seed, so that a resumed run, or one with more devices, continues the same row.

    Args:
        shares: For each member, its share of the draws, above 0, in any unit.
    """

    def __init__(self, members: "Sequence[Epochs]", *, shares: Sequence[float] = (1.0,), seed: int) -> None:
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
        member, number = self._member_at(place)
        epoch, index = self._epoch_at(member, number)
        return Draw(member, int(self._shuffled(member, epoch)[index]), epoch, place)

    def _member_at(self, place: int) -> tuple[int, int]:
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
        """Returns the member of each place of a block.

        Evenly spaced points from 0 to 1, in shuffled order, are assigned to the members by their cumulated shares.
        """
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

    The groups of a step depend only on the row; they are then distributed over devices and micro-batches.
    """

    row: EndlessRow  # The order of all draws.
    batch_size: int
    micro_batch_size: int  # Media groups per forward pass of one device.
    world_size: int
    # The number of groups after which the last step of an epoch ends, however few groups it has; None fills every step.
    epoch_groups: int | None = None
    repeated: int = 1  # The number of steps in a row that have the same groups.

    @property
    def accumulate(self) -> int:
        return math.ceil(self.batch_size / (self.micro_batch_size * self.world_size))

    def step_groups(self, step: int) -> list[Draw]:
        """Returns the groups of one step, which follow those of the step before it in the row."""
        step //= self.repeated
        first, last = step * self.batch_size, (step + 1) * self.batch_size
        if self.epoch_groups is not None:
            epoch, within = divmod(step, math.ceil(self.epoch_groups / self.batch_size))
            first = epoch * self.epoch_groups + within * self.batch_size
            last = min(first + self.batch_size, (epoch + 1) * self.epoch_groups)
        return [self.row[place] for place in range(first, last)]

    def micro_batch(self, step: int, number: int, rank: int) -> list[Draw]:
        """Returns the groups of one forward pass on one device.

        The list is empty if the step has too few groups for all devices.
        """
        share = self.micro_batch_size
        first = (number * self.world_size + rank) * share
        return self.step_groups(step)[first : first + share]


class ResumableOrder(DistributedSampler[int]):
    """Yields the running numbers of this device's forward passes from the step that `start_step` returns on.

    Its length is that of a whole epoch, because Lightning counts the skipped forward passes as done. It is a
    DistributedSampler for Lightning, which puts one of its own in place of every other sampler.

    Args:
        epoch_steps: Optimizer steps of an epoch, which may be the whole stage.
        length: Forward passes of this device per epoch.
        accumulate: Forward passes of this device per optimizer step.
        start_step: Returns the number of finished steps; it is called when iteration begins.

    Attributes:
        begins: Is told the first number when iteration begins; None tells nobody.
    """

    def __init__(self, *, epoch_steps: int, length: int, accumulate: int, start_step: Callable[[], int]) -> None:
        self._epoch_steps = epoch_steps
        self._length = length
        self._accumulate = accumulate
        self._start_step = start_step
        self.begins: Callable[[int], None] | None = None

    def __iter__(self) -> Iterator[int]:
        # The step is read with the first number: Lightning begins an iteration before it reads a saved state.
        step = self._start_step()
        end = (step // self._epoch_steps + 1) * self._epoch_steps
        if self.begins is not None:
            self.begins(step * self._accumulate)
        yield from range(step * self._accumulate, end * self._accumulate)

    def __len__(self) -> int:
        return self._length

    def set_epoch(self, epoch: int) -> None:
        """Does nothing, because the number of finished steps says which epoch it is."""


def cell_of(question: Question) -> tuple[str, str]:
    """Returns the cell of a question, its task and subtype. Answers are balanced within each cell."""
    return question.facets.get("task", ""), question.facets.get("subtype", "")


class Balanced:
    """Media groups of which each epoch asks only some questions with frequent answers; over the epochs all are asked.

    This holds for options, free words and numbers. Answers that differ only in case or a final period count as the same
    answer, and so do 0.0 and 0. An answer is frequent if it occurs at least as often as the square root of the number
    of questions of its task and subtype. If a frequent answer occurs n times, and the least common frequent answer
    occurs m times, an epoch asks m ** strength * n ** (1 - strength) of its questions: a strength of 1 asks each
    frequent answer equally often, 0 asks all questions.

    Questions with other answers, such as sentences and measurements that occur once, are always asked. If only one
    answer is frequent, m is the number of all other questions of the cell, provided that there are any and that they
    are fewer. A cell of sentences is therefore never reduced to one question for each answer.

    Args:
        strength: How far frequent answers are reduced, from 0 (not at all) to 1.
        seed: Decides the order in which the questions of a frequent answer take turns.
    """

    def __init__(self, groups: Sequence[MediaGroup], *, strength: float, seed: int) -> None:
        if not 0 <= strength <= 1:
            raise ValueError(f"wanted a strength of balancing from 0 to 1, got {strength}")
        self._groups = groups
        questions = [question for group in groups for question in group.questions]
        self._first = np.cumsum([0, *(len(group.questions) for group in groups)])
        self._count = np.ones(len(questions), dtype=np.int64)
        self._wanted = np.ones(len(questions), dtype=np.int64)
        self._turn = np.zeros(len(questions), dtype=np.int64)
        number_of = {question.id: number for number, question in enumerate(questions)}
        for answers in _cells(questions).values():
            frequent, least = _frequent(answers.values())
            for ids in frequent:
                numbers = np.array([number_of[id_] for id_ in stable_order(ids, seed, "balance")])
                self._count[numbers] = len(ids)
                self._wanted[numbers] = max(1, round(least**strength * len(ids) ** (1 - strength)))
                self._turn[numbers] = np.arange(len(ids))

    def groups_in(self, epoch: int) -> Sequence[int]:
        asked = np.add.reduceat(self._is_asked(epoch).astype(np.int64), self._first[:-1])
        return [int(number) for number in np.flatnonzero(asked)]

    def group(self, number: int, epoch: int) -> MediaGroup:
        """Returns a group with those of its questions that an epoch asks."""
        whole = self._groups[number]
        asked = self._is_asked(epoch, int(self._first[number]), int(self._first[number + 1]))
        kept = tuple(question for question, is_asked in zip(whole.questions, asked, strict=True) if is_asked)
        return replace(whole, questions=kept)

    def _is_asked(self, epoch: int, first: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        part = slice(first, stop)
        count, wanted = self._count[part], self._wanted[part]
        return np.asarray((self._turn[part] - epoch * wanted) % count < wanted)


Epochs = AllGroups | Balanced
"""Says which groups of a mixture's member each epoch goes through, at least one."""


def _cells(questions: Sequence[Question]) -> dict[tuple[str, str], dict[str, list[str]]]:
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for question in questions:
        cells.setdefault(cell_of(question), {}).setdefault(_class(question), []).append(question.id)
    return cells


class _Frequent(NamedTuple):
    answers: Sequence[Sequence[str]]  # For each frequent answer, the ids of the questions that have it.
    least: int  # The number m of questions to which an answer is reduced at strength 1.


def _frequent(answers: Collection[Sequence[str]]) -> _Frequent:
    total = sum(map(len, answers))
    frequent = [ids for ids in answers if len(ids) ** 2 >= total]
    others = total - sum(map(len, frequent))
    counts = list(map(len, frequent))
    if len(frequent) == 1 and others:
        counts.append(others)
    return _Frequent(frequent, min(counts, default=0))


def _class(question: Question) -> str:
    try:
        return f"{float(question.answer) + 0.0:.12g}"
    except ValueError:
        return question.answer.casefold().strip().removesuffix(".")
