"""Makes micro-batches of media groups: each image is read once, and its questions share one tree of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from torch.utils.data import DataLoader, Dataset

from medtune.data.media.load import Shape
from medtune.data.types import MediaGroup, Prompt, Question
from medtune.models.contract import Assembled, MediaBatch, MediaItem, Transform
from medtune.models.media_item import read_item
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.sequence.packing import PackedRows, Shown, balanced, pack
from medtune.models.sequence.tree import grow
from medtune.trainer.recipe.schema import Stage
from medtune.trainer.training.mixture import Mixture
from medtune.trainer.training.sampling import Draw, ResumableOrder, StepOrder

ROW_TOKENS = 192
"""Trees are packed into rows of about this many tokens: longer rows waste time on masked attention, shorter pad."""


class MicroBatch(NamedTuple):
    """The input of one forward pass of one device.

    Attributes:
        number: The running number of the forward pass on its device.
        media: The media items of the groups that show theirs, in their order; None where none does.
        step_target_tokens: The learnt tokens of the whole optimizer step, over all devices and forward passes.
        num_counted: How many of the sequences count. Those behind them are borrowed: all devices have to run the same
            layers, or the sharded strategies wait for each other for ever.
        num_shown: How many of the groups that count show their media.
        question_ids: The ids of the questions, for naming the batch in an error.
    """

    number: int
    rows: PackedRows
    media: MediaBatch
    step_target_tokens: int
    num_counted: int
    num_shown: int
    question_ids: tuple[str, ...]


class MicroBatches(Dataset[MicroBatch]):
    """The forward passes of one device, by running number.

    With `share_prefix=False` every question has a row of its own. With `row_tokens=0` every tree has one.
    """

    def __init__(
        self,
        mixture: Mixture,
        order: StepOrder,
        *,
        rank: int,
        family: SequenceFamily,
        transform: Transform,
        share_prefix: bool = True,
        row_tokens: int = ROW_TOKENS,
    ) -> None:
        self.mixture = mixture
        self.order = order
        self._rank = rank
        self._family = family
        self._transform = transform
        counts = [len(member.groups) for member in mixture.members]
        self._blind = [
            np.random.default_rng([mixture.seed, count]).random(count) < mixture.text_only_share for count in counts
        ]
        self._share_prefix = share_prefix
        self._row_tokens = row_tokens if share_prefix else 0

    def __len__(self) -> int:
        raise TypeError("training has no end of its own; the sampler counts the steps")

    @property
    def num_text_only(self) -> int:
        """How many groups are learnt without their media item."""
        return sum(int(blind.sum()) for blind in self._blind)

    def first_epoch(self, epoch: int = 0) -> Iterator[Draw]:
        """Yields every group that each member's first epoch, or that one, goes through, in their order."""
        for number, member in enumerate(self.mixture.members):
            for group in member.epochs.groups_in(epoch):
                yield Draw(number, group, epoch=epoch, place=0)

    def layouts(self, draw: Draw) -> list[Layout]:
        """Returns one sequence with its answer per question of a drawn group.

        Raises:
            ValueError: A sequence is too long; the message names the file and the question.
        """
        group, blind = self.mixture.group(draw), self._is_blind(draw)
        render = self.mixture.members[draw.member].render
        shape = None if blind else self._transform.shape(group.media)
        return [self._layout(group, question, render(question), shape, blind=blind) for question in group.questions]

    def _layout(
        self, group: MediaGroup, question: Question, prompt: Prompt, shape: Shape | None, *, blind: bool
    ) -> Layout:
        try:
            return self._family.layout(prompt.text, prompt.target, with_media=not blind, shape=shape)
        except ValueError as error:
            raise ValueError(f"{group.media.path}: question {question.id}: {error}") from error

    def _is_blind(self, draw: Draw) -> bool:
        return bool(self._blind[draw.member][draw.group])

    def __getitem__(self, number: int) -> MicroBatch:
        step, within = divmod(number, self.order.accumulate)
        whole = self.order.step_groups(step)
        mine = self.order.micro_batch(step, within, self._rank)
        borrowed = self._borrowed(mine, whole)
        layouts = [self.layouts(draw) for draw in mine] + [self.layouts(draw)[:1] for draw in borrowed]
        shown = [draw for draw in (*mine, *borrowed) if not self._is_blind(draw)]
        items = [self._item(draw) for draw in shown]
        return MicroBatch(
            number=number,
            rows=self._packed(layouts, [shown.index(draw) if draw in shown else None for draw in (*mine, *borrowed)]),
            media=self._transform.stack(items) if items else None,
            step_target_tokens=sum(sequence.num_targets for draw in whole for sequence in self.layouts(draw)),
            num_counted=sum(len(group) for group in layouts[: len(mine)]),
            num_shown=sum(not self._is_blind(draw) for draw in mine),
            question_ids=tuple(
                question.id for draw in mine or borrowed for question in self.mixture.group(draw).questions
            ),
        )

    def _item(self, draw: Draw) -> MediaItem:
        group = self.mixture.group(draw)
        return read_item(group.media, self._transform, change=self.mixture.change(draw, group))

    def _borrowed(self, mine: Sequence[Draw], whole: Sequence[Draw]) -> list[Draw]:
        """Returns groups that are run along without counting.

        A device without groups takes one of the step's. Where some groups show their media and some do not, each pass
        of each of several devices holds both kinds: the tower runs for the one, and layers that attend to an image
        are left out for the other.
        """
        kinds = {self._is_blind(draw) for draw in mine}
        blind = np.concatenate(self._blind)
        if self.order.world_size > 1 and blind.any() and not blind.all():
            missing = sorted({False, True} - kinds)
            # Balancing may leave a kind out of one epoch, but of no two in a row for ever.
            drawn = (draw for epoch in count() for draw in self.first_epoch(epoch))
            return [next(draw for draw in drawn if self._is_blind(draw) == kind) for kind in missing]
        return [] if mine else list(whole[:1])

    def _packed(self, layouts: Sequence[Sequence[Layout]], shown: Sequence[int | None]) -> PackedRows:
        """Returns the groups' sequences as rows of trees; the sequences are numbered through."""
        trees: list[Shown] = []
        first = 0
        for media, group in zip(shown, layouts, strict=True):
            numbers = range(first, first + len(group))
            first = numbers.stop
            if self._share_prefix:
                trees.append(Shown(grow(group, numbers), media))
            else:
                trees += [Shown(grow([one], [number]), media) for one, number in zip(group, numbers, strict=True)]
        return pack(balanced(trees, row_tokens=self._row_tokens), pad_id=self._family.pad_id)


def stage_batches(mixture: Mixture, stage: Stage, assembled: Assembled, *, rank: int, world_size: int) -> MicroBatches:
    """Returns the forward passes of one device in a stage: the benchmarks' prompts in the model's layout."""
    return MicroBatches(
        mixture,
        StepOrder(
            row=mixture.row(),
            batch_size=stage.batch_size,
            micro_batch_size=stage.micro_batch_size,
            world_size=world_size,
        ),
        rank=rank,
        family=assembled.family,
        transform=assembled.transform,
        share_prefix=assembled.model.plain_because is None,
        row_tokens=ROW_TOKENS if assembled.model.packs_trees else 0,
    )


def loader(batches: MicroBatches, order: ResumableOrder, *, workers: int) -> DataLoader[MicroBatch]:
    """Returns the loader that Lightning iterates over; each item is a whole micro-batch already."""
    return DataLoader(batches, batch_size=None, sampler=order, num_workers=workers, persistent_workers=workers > 0)
