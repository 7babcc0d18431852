"""Lays out the sequences of drawn media groups, and says how long their trees are."""

from collections.abc import Sequence

import numpy as np

from medtune.data.media.load import Shape
from medtune.data.types import MediaGroup, Prompt, Question
from medtune.models.contract import Transform
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.sequence.tree import Tree, grow
from medtune.trainer.training.division.budget import Lengths
from medtune.trainer.training.mixture import Mixture
from medtune.trainer.training.sampling import Draw


class GroupSequences:
    """The sequences of the media groups that a mixture draws.

    Args:
        mixture: The training data of the stage.
        family: The layout of the model's sequences.
        transform: The transform from media to the model's input.
        share_prefix: Whether the questions of a group share one tree; otherwise each question is a tree of its own.
    """

    def __init__(self, mixture: Mixture, *, family: SequenceFamily, transform: Transform, share_prefix: bool) -> None:
        self.mixture = mixture
        self.family = family
        self.transform = transform
        self._share_prefix = share_prefix
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
        group, blind = self.mixture.group(draw), self.is_blind(draw)
        render = self.mixture.members[draw.member].render
        shapes = () if blind else tuple(map(self.transform.shape, group.media))
        return [self._layout(group, question, render(question), shapes) for question in group.questions]

    def _layout(self, group: MediaGroup, question: Question, prompt: Prompt, shapes: Sequence[Shape | None]) -> Layout:
        try:
            return self.family.layout(prompt.text, prompt.target, shapes=shapes, turns=question.turns)
        except ValueError as error:
            files = "".join(f"{ref.path}: " for ref in group.media)
            raise ValueError(f"{files}question {question.id}: {error}") from error

    def trees(self, layouts: Sequence[Layout], numbers: Sequence[int]) -> list[Tree]:
        """Returns the trees of a group's sequences, which have these numbers: one, or one for each question."""
        if self._share_prefix:
            return [grow(layouts, numbers)]
        return [grow([one], [number]) for one, number in zip(layouts, numbers, strict=True)]

    def lengths(self, draw: Draw) -> Lengths:
        """Returns the tokens of each tree of a drawn group; they are counted once and kept."""
        # Only balanced members ask other questions in other epochs.
        epoch = 0 if self.mixture.members[draw.member].balanced is None else draw.epoch
        key = (draw.member, draw.group, epoch)
        if key not in self._lengths:
            layouts = self.layouts(draw)
            self._lengths[key] = tuple(len(tree.ids) for tree in self.trees(layouts, range(len(layouts))))
        return self._lengths[key]
