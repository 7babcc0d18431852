"""Reads from prepared data how long the rows of a training are, for the plan."""

from heapq import nlargest, nsmallest

from medtune.data.types import MediaGroup
from medtune.models.contract import Assembled
from medtune.models.sequence.tree import grow
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.plan.plan import Sizes
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.mixture import stage_mixture

_LONGEST = 20
"""The number of groups, those with the longest texts, whose rows are laid out; also of those with the shortest."""


def sizes_of(data: OpenedData, assembled: Assembled) -> Sizes:
    """Returns the largest row of the training, counted on the groups with the longest texts and the most media."""
    recipe = data.recipe
    tokens, targets, rows = 1, 1, 1
    least: int | None = None
    for stage in recipe.stages:
        mixture = stage_mixture(recipe, stage, data.training_sets, limit=None)
        batches = stage_batches(mixture, stage, assembled, rank=0, world_size=recipe.train.world_size)
        draws = [(mixture.group(draw), draw) for draw in batches.first_epoch()]
        longest = nlargest(_LONGEST, draws, key=lambda each: _size(each[0]))
        most = nlargest(_LONGEST, draws, key=lambda each: len(each[0].media))
        if stage.micro_batch_tokens is not None:
            shortest = nsmallest(_LONGEST, draws, key=lambda each: (len(each[0].media), _size(each[0])))
            least = min([sum(batches.lengths(draw)) for _, draw in shortest] + ([] if least is None else [least]))
        for _, draw in (*longest, *most):
            layouts = batches.layouts(draw)
            if assembled.model.plain_because is None:
                tree = grow(layouts, range(len(layouts)))
                tokens, targets = max(tokens, len(tree.ids)), max(targets, len(tree.targets))
            else:
                tokens = max(tokens, *(len(layout.ids) for layout in layouts))
                targets = max(targets, *(layout.num_targets for layout in layouts))
                rows = max(rows, len(layouts))
    return Sizes(tokens, targets, rows, least, is_measured=True)


def _size(group: MediaGroup) -> int:
    return sum(len(question.text) + len(question.answer) for question in group.questions)
