"""Media groups -> micro-batches: every image once, its questions in one tree, labels from the one layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch.utils.data import DataLoader, Dataset

from medtune.data.images import load_media, media_size
from medtune.data.types import Image, MediaGroup, MediaRef, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.models.contract import MediaBatch, Transform
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.sequence.packing import PackedRows, Shown, balanced, pack
from medtune.models.sequence.tree import grow
from medtune.models.vlm import Assembled
from medtune.trainer.order import ResumableOrder, StepOrder
from medtune.trainer.recipe import Recipe

ROW_TOKENS = 192
"""Trees are packed into rows of about this length: longer ones waste time on masked attention, shorter ones pad."""


class MicroBatch(NamedTuple):
    """What one device forwards at once.

    Attributes:
        number: Running number of the forward pass on its device.
        media: The images of the groups, in their order.
        step_target_tokens: Learnt tokens of the whole optimizer step, over all devices and parts.
        weight: 1, or 0 where the step had no groups left for this device and one was borrowed to keep in step.
        question_ids: For naming a batch in an error.
    """

    number: int
    rows: PackedRows
    media: MediaBatch
    step_target_tokens: int
    weight: float
    question_ids: tuple[str, ...]


class MicroBatches(Dataset[MicroBatch]):
    """The forward passes of one device, by running number.

    `share_prefix=False` is the plain twin: a row for every question. With `row_tokens=0` there is a row for every tree.
    """

    def __init__(
        self,
        groups: Sequence[MediaGroup],
        order: StepOrder,
        *,
        rank: int,
        render: Callable[[Question], Prompt],
        family: SequenceFamily,
        transform: Transform,
        load_media: Callable[[MediaRef], Image],
        share_prefix: bool = True,
        row_tokens: int = ROW_TOKENS,
    ) -> None:
        self._groups = groups
        self.order = order
        self._rank = rank
        self._render = render
        self._family = family
        self._transform = transform
        self._load_media = load_media
        self._share_prefix = share_prefix
        self._row_tokens = row_tokens if share_prefix else 0

    def __len__(self) -> int:
        raise TypeError("training has no end of its own; the sampler counts the steps")

    def layouts(self, group: MediaGroup) -> list[Layout]:
        """Returns one sequence with its answer per question of the group."""
        prompts, size = [self._render(question) for question in group.questions], media_size(group.media)
        return [self._family.layout(prompt.text, prompt.target, size=size) for prompt in prompts]

    def __getitem__(self, number: int) -> MicroBatch:
        step, part = divmod(number, self.order.accumulate)
        whole = self.order.step_groups(step)
        mine = self.order.micro_batch(step, part, self._rank)
        chosen = [self._groups[i] for i in mine or whole[:1]]
        layouts = [self.layouts(group) for group in chosen]
        targets = [sum(s.num_targets for s in self.layouts(self._groups[i])) for i in whole]
        return MicroBatch(
            number=number,
            rows=self._packed(layouts),
            media=self._transform.stack([self._transform(self._load_media(group.media)) for group in chosen]),
            step_target_tokens=sum(targets),
            weight=1.0 if mine else 0.0,
            question_ids=tuple(question.id for group in chosen for question in group.questions),
        )

    def _packed(self, layouts: Sequence[Sequence[Layout]]) -> PackedRows:
        """Returns the groups' sequences as rows of trees; the sequences are numbered through."""
        trees: list[Shown] = []
        first = 0
        for media, group in enumerate(layouts):
            numbers = range(first, first + len(group))
            first = numbers.stop
            if self._share_prefix:
                trees.append(Shown(grow(group, numbers), media))
            else:
                trees += [Shown(grow([one], [number]), media) for one, number in zip(group, numbers, strict=True)]
        return pack(balanced(trees, row_tokens=self._row_tokens), pad_id=self._family.pad_id)


def recipe_batches(
    recipe: Recipe,
    judged_by: Benchmark,
    groups: Sequence[MediaGroup],
    assembled: Assembled,
    *,
    rank: int,
    world_size: int,
) -> MicroBatches:
    """Returns the forward passes of one device of a run: the benchmark's prompts, the model's layout."""
    train = recipe.train
    return MicroBatches(
        groups,
        StepOrder(
            num_groups=len(groups),
            batch_groups=train.batch_groups,
            micro_batch_groups=train.micro_batch_groups,
            world_size=world_size,
            seed=train.seed,
        ),
        rank=rank,
        render=lambda question: judged_by.render(question, recipe.model.answer_format),
        family=assembled.family,
        transform=assembled.transform,
        load_media=load_media,
        share_prefix=assembled.model.plain_because is None,
        row_tokens=ROW_TOKENS if assembled.model.packs_trees else 0,
    )


def loader(batches: MicroBatches, order: ResumableOrder, *, workers: int) -> DataLoader[MicroBatch]:
    """Returns the loader that Lightning iterates over; each item is a whole micro-batch already."""
    return DataLoader(batches, batch_size=None, sampler=order, num_workers=workers, persistent_workers=workers > 0)
