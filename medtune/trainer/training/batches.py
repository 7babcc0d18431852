"""Makes micro-batches from media groups: each image is read once, and a group's questions share one tree of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from medtune.data.media.load import Shape
from medtune.data.types import MediaGroup, Prompt, Question
from medtune.models.contract import Assembled, MediaBatch, MediaItem, Transform
from medtune.models.media_reader import LoadingTurns, read_item
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.builder import Template
from medtune.models.sequence.packing import ROW_TOKENS, PackedRows, Shown, balanced, pack
from medtune.models.sequence.tree import Tree, grow
from medtune.trainer.recipe.schema import Stage
from medtune.trainer.training.budget import GroupOrder, Lengths, TokenBudget, TokenOrder
from medtune.trainer.training.mixture import Mixture
from medtune.trainer.training.sampling import Draw, ResumableOrder, StepOrder


class GroupSequences:
    """The sequences of the media groups that a mixture draws.

    Args:
        share_prefix: Whether the questions of a group share one tree; otherwise each question is a tree of its own.
    """

    def __init__(self, mixture: Mixture, *, template: Template, transform: Transform, share_prefix: bool) -> None:
        self.mixture = mixture
        self.template = template
        self.transform = transform
        self.share_prefix = share_prefix
        bare = [np.array([not group.media for group in member.groups], bool) for member in mixture.members]
        hidden = [np.random.default_rng([mixture.seed, len(each)]).random(len(each)) for each in bare]
        self.blind = [(drawn < mixture.text_only_share) | each for drawn, each in zip(hidden, bare, strict=True)]
        self._num_bare = sum(int(each.sum()) for each in bare)
        self._lengths: dict[tuple[int, int, int], Lengths] = {}

    @property
    def num_text_only(self) -> int:
        """The number of groups that are trained on without their media, beside those that have none."""
        return sum(int(blind.sum()) for blind in self.blind) - self._num_bare

    def is_blind(self, draw: Draw) -> bool:
        """Returns whether a drawn group is learnt without its media."""
        return bool(self.blind[draw.member][draw.group])

    def layouts(self, draw: Draw) -> list[Layout]:
        """Returns the sequences of a drawn group: one for each question, with its answer."""
        group, shapes = self.mixture.group(draw), self.shapes(draw)
        asked = [(question, self.mixture.members[draw.member].render(question)) for question in group.questions]
        return [self.layout(group, question, prompt, prompt.target, shapes) for question, prompt in asked]

    def shapes(self, draw: Draw) -> tuple[Shape | None, ...]:
        """Returns the shapes of the media that a drawn group is shown with."""
        return () if self.is_blind(draw) else tuple(map(self.transform.shape, self.mixture.group(draw).media))

    def layout(
        self, group: MediaGroup, question: Question, prompt: Prompt, answer: str | None, shapes: Sequence[Shape | None]
    ) -> Layout:
        """Returns the sequence of a question with an answer; without one it ends where a reply begins."""
        try:
            return self.template.layout(prompt.text, answer, shapes=shapes, turns=question.turns)
        except ValueError as error:
            files = "".join(f"{ref.path}: " for ref in group.media)
            raise ValueError(f"{files}question {question.id}: {error}") from error

    def lengths(self, draw: Draw) -> Lengths:
        """Returns the tokens of each tree of a drawn group; they are counted once and kept."""
        # Only balanced members ask other questions in other epochs.
        epoch = 0 if self.mixture.members[draw.member].balanced is None else draw.epoch
        key = (draw.member, draw.group, epoch)
        if key not in self._lengths:
            layouts = self.layouts(draw)
            trees = trees_of(layouts, range(len(layouts)), share_prefix=self.share_prefix)
            self._lengths[key] = tuple(len(tree.ids) for tree in trees)
        return self._lengths[key]


class LearntReplies(NamedTuple):
    """What is known of the replies of a pass that are no true answers: draws, or pairs of a better and a worse reply.

    In pairs, the better reply has an even number and the worse one the number behind it. The numbers of targets are in
    the order in which the pass reads them.
    """

    advantage_N: Tensor  # How much better than its question's other draws each reply is paid; zeros for pairs.
    old_logprobs_T: Tensor | None  # Log-probabilities when the replies were drawn; None where that is now.
    start_logprobs_T: Tensor | None  # The same by the weights with which the stage began; None where none are wanted.
    temperature: float  # The temperature of all log-probabilities.
    max_new_tokens: int
    num_drawn: int = 0  # The replies that were drawn for this pass, those that nothing is learnt from among them.


class MicroBatch(NamedTuple):
    """The input of one forward pass on one device."""

    number: int  # The running number of the forward pass on its device.
    rows: PackedRows  # The sequences of all groups, packed into rows of token trees.
    # The media items of the groups that are shown with theirs, in the order of the groups; None if no group is.
    media: MediaBatch
    # The numbers of target tokens and of replies in the whole optimizer step, over all devices and forward passes.
    step_target_tokens: int
    step_replies: int
    num_replies: int  # The number of sequences in this forward pass, borrowed ones among them.
    # The number of sequences that count for the loss. The sequences after them are borrowed: every device has to run
    # the same layers, because with a sharded strategy the devices would otherwise wait for each other forever.
    num_counted: int
    num_shown: int  # The number of groups that count and are shown with their media.
    question_ids: tuple[str, ...]  # The ids of the questions, for naming the batch in an error.
    replies: LearntReplies | None = None  # None where true answers are learnt.
    teaches: bool = True  # Whether there is anything to learn; of draws that are all paid alike there is not.


class MicroBatches(Dataset[Any]):
    """The micro-batches of one device, by the running number of the forward pass.

    Args:
        make: Makes the batch of a number in place of a MicroBatch, for losses that learn from other replies than the
            true answers; None learns these.
        row_tokens: The number of tokens, about, up to which trees are packed into one row; 0 gives each tree a row of
            its own.
        both_kinds: Whether every forward pass holds groups with media and groups without them, if the mixture has
            both; on several devices it does in any case.
    """

    def __init__(
        self,
        mixture: Mixture,
        order: GroupOrder,
        *,
        rank: int,
        template: Template,
        transform: Transform,
        share_prefix: bool = True,
        row_tokens: int = ROW_TOKENS,
        both_kinds: bool = False,
        make: Make | None = None,
    ) -> None:
        self.mixture = mixture
        self.order = order
        self.rank = rank
        self._make = make or made
        self._both_kinds = both_kinds or order.world_size > 1
        self.transform = transform
        self.sequences = GroupSequences(mixture, template=template, transform=transform, share_prefix=share_prefix)
        self._row_tokens = row_tokens if share_prefix else 0
        self._laid: tuple[int, dict[Draw, list[Layout]]] = (-1, {})
        self.turns: LoadingTurns | None = None

    def __len__(self) -> int:
        raise TypeError("training has no end of its own; the sampler counts the steps")

    def first_epoch(self, epoch: int = 0) -> Iterator[Draw]:
        """Yields every group of one epoch of each member, member by member; by default of the first epoch."""
        for number, member in enumerate(self.mixture.members):
            for group in member.epochs.groups_in(epoch):
                yield Draw(number, group, epoch=epoch, place=0)

    def __getitem__(self, number: int) -> Any:
        if self.turns is None:
            return self._make(self, number)
        self.turns.wait(number)
        batch = self._make(self, number)
        self.turns.loaded(batch.media)
        return batch

    def shown(self, draws: Sequence[Draw]) -> tuple[list[int | None], MediaBatch]:
        """Returns the number of the first media item of each drawn group, None where it is learnt blind; and the media.

        There are none (None) where no group shows any.
        """
        items: list[MediaItem] = []
        first: list[int | None] = []
        for draw in draws:
            first.append(None if self.sequences.is_blind(draw) else len(items))
            items += [] if self.sequences.is_blind(draw) else self._items(draw)
        return first, self.transform.stack(items) if items else None

    def packed(self, layouts: Sequence[Sequence[Layout]], shown: Sequence[int | None]) -> PackedRows:
        """Returns the sequences of groups, each of which shows media from a number on, as rows of trees."""
        share_prefix, tokens = self.sequences.share_prefix, self._row_tokens
        return packed(
            layouts, shown, share_prefix=share_prefix, row_tokens=tokens, pad_id=self.sequences.template.pad_id
        )

    def step_layouts(self, step: int, whole: Sequence[Draw]) -> dict[Draw, list[Layout]]:
        if self._laid[0] != step:
            self._laid = (step, {draw: self.sequences.layouts(draw) for draw in whole})
        return self._laid[1]

    def _items(self, draw: Draw) -> list[MediaItem]:
        group = self.mixture.group(draw)
        change = self.mixture.change(draw, group)
        return [read_item(ref, self.transform, change=change) for ref in group.media]

    def borrowed(self, mine: Sequence[Draw], whole: Sequence[Draw]) -> list[Draw]:
        """Returns groups that are run in addition and do not count for the loss.

        A device that has no group in this forward pass borrows one of the step. If there are several devices, or all
        that learns lies in what is shown, and only some groups are shown with their media, every forward pass holds
        both kinds, because the kinds run different layers: the vision tower runs only for groups with media, and layers
        that attend to an image are skipped for the others. A pass whose own groups reach nothing that learns then has a
        gradient of zeros.
        """
        kinds = {self.sequences.is_blind(draw) for draw in mine}
        blind = np.concatenate(self.sequences.blind)
        if self._both_kinds and blind.any() and not blind.all():
            missing = sorted({False, True} - kinds)
            # Balancing may leave a kind out of an epoch, but some later epoch contains it.
            drawn = (draw for epoch in count() for draw in self.first_epoch(epoch))
            return [next(draw for draw in drawn if self.sequences.is_blind(draw) == kind) for kind in missing]
        return [] if mine else list(whole[:1])


Make = Callable[[MicroBatches, int], Any]
"""Makes the batch of a running number: a NamedTuple with the fields `number` and `media`."""


def made(batches: MicroBatches, number: int) -> MicroBatch:
    """Returns the micro-batch of a number, which learns the true answers."""
    order, sequences = batches.order, batches.sequences
    step, within = divmod(number, order.accumulate)
    whole = order.step_groups(step)
    mine = order.micro_batch(step, within, batches.rank)
    borrowed = batches.borrowed(mine, whole)
    step_layouts = batches.step_layouts(step, whole)
    layouts = [step_layouts[draw] for draw in mine]
    layouts += [(step_layouts.get(draw) or sequences.layouts(draw))[:1] for draw in borrowed]
    first, media = batches.shown((*mine, *borrowed))
    return MicroBatch(
        number=number,
        rows=batches.packed(layouts, first),
        media=media,
        step_target_tokens=sum(sequence.num_targets for draw in whole for sequence in step_layouts[draw]),
        step_replies=sum(len(step_layouts[draw]) for draw in whole),
        num_replies=sum(map(len, layouts)),
        num_counted=sum(len(group) for group in layouts[: len(mine)]),
        num_shown=sum(not sequences.is_blind(draw) for draw in mine),
        question_ids=tuple(
            question.id for draw in mine or borrowed for question in batches.mixture.group(draw).questions
        ),
    )


def packed(
    layouts: Sequence[Sequence[Layout]],
    shown: Sequence[int | None],
    *,
    share_prefix: bool,
    row_tokens: int,
    pad_id: int,
) -> PackedRows:
    """Returns the sequences of groups as rows: a tree for each group, or for each sequence without `share_prefix`.

    Args:
        shown: Number of the first media item that each group shows; None where it shows none.
    """
    trees: list[Shown] = []
    first = 0
    for media, group in zip(shown, layouts, strict=True):
        numbers = range(first, first + len(group))
        first = numbers.stop
        trees += [Shown(tree, media) for tree in trees_of(group, numbers, share_prefix=share_prefix)]
    return pack(balanced(trees, row_tokens=row_tokens), pad_id=pad_id)


def trees_of(layouts: Sequence[Layout], numbers: Sequence[int], *, share_prefix: bool) -> list[Tree]:
    """Returns the trees of a group's sequences, which have these numbers: one, or one for each sequence."""
    if share_prefix:
        return [grow(layouts, numbers)]
    return [grow([one], [number]) for one, number in zip(layouts, numbers, strict=True)]


def stage_batches(mixture: Mixture, stage: Stage, assembled: Assembled, *, world_size: int) -> MicroBatches:
    """Returns the micro-batches of a stage's first device, made from the benchmarks' prompts in the model's layout."""
    order = stage_order(mixture, stage, assembled, world_size=world_size)
    return micro_batches(mixture, order, assembled, rank=0, both_kinds=learns_from_media_alone(stage))


def learns_from_media_alone(stage: Stage) -> bool:
    """Returns whether nothing of a stage learns from text without media: its language model is frozen."""
    return stage.tuning.language.mode == "frozen"


def stage_order(
    mixture: Mixture, stage: Stage, assembled: Assembled, *, world_size: int, repeated: int = 1
) -> GroupOrder:
    """Returns the order of the media groups in a stage, divided by their number or by a budget of tokens.

    Args:
        repeated: The number of steps in a row that have the same groups.
    """
    plain = StepOrder(
        row=mixture.row(),
        batch_size=stage.batch_size,
        micro_batch_size=stage.micro_batch_size,
        world_size=world_size,
        repeated=repeated,
    )
    if stage.micro_batch_tokens is None:
        return plain
    packing = packing_of(assembled)
    sequences = GroupSequences(
        mixture, template=assembled.template, transform=assembled.transform, share_prefix=packing.share_prefix
    )
    budget = TokenBudget(stage.micro_batch_tokens, packing.row_tokens)
    return TokenOrder(plain, budget, sequences.lengths, steps=stage.max_steps)


def micro_batches(
    mixture: Mixture, order: GroupOrder, assembled: Assembled, *, rank: int, both_kinds: bool, make: Make | None = None
) -> MicroBatches:
    """Returns the micro-batches of one device in an order, made from the benchmarks' prompts in the model's layout."""
    packing = packing_of(assembled)
    return MicroBatches(
        mixture,
        order,
        rank=rank,
        template=assembled.template,
        transform=assembled.transform,
        share_prefix=packing.share_prefix,
        row_tokens=packing.row_tokens,
        both_kinds=both_kinds,
        make=make,
    )


class Packing(NamedTuple):
    share_prefix: bool  # Whether the sequences of a group share one tree.
    row_tokens: int  # The number of tokens, about, up to which trees are packed into one row.


def packing_of(assembled: Assembled) -> Packing:
    """Returns how a model's sequences are packed into rows."""
    shares = assembled.model.plain_because is None
    return Packing(shares, ROW_TOKENS if shares and assembled.model.packs_trees else 0)


class _BatchLoader(DataLoader[Any]):
    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        turns = self.dataset.turns if isinstance(self.dataset, MicroBatches) else None
        try:
            for batch in super().__iter__():
                if turns is not None:
                    turns.taken(batch.number)
                yield batch
        finally:
            if turns is not None:
                turns.end()


def loader(batches: MicroBatches, order: ResumableOrder, *, workers: int) -> DataLoader[Any]:
    """Returns the data loader that Lightning iterates over; each of its items is a complete micro-batch.

    The processes hold a bounded amount of memory together (media_reader.py).
    """
    if workers > 0:
        batches.turns = LoadingTurns(workers)
        order.begins = batches.turns.begin
    return _BatchLoader(
        batches,
        batch_size=None,
        sampler=order,
        num_workers=workers,
        persistent_workers=workers > 0,
        # A GPU fetches pinned memory by itself, while the step before still runs.
        pin_memory=torch.cuda.is_available(),
        worker_init_fn=None if batches.turns is None else batches.turns.leave_stopping_to_the_parent,
    )
