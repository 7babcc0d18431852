"""Finds what the weights that a recipe begins with were trained on, and whether the evaluated patients are among it."""

from collections.abc import Mapping, Sequence

from medtune.data.types import MediaGroup
from medtune.eval.data_label import NOT_RECORDED
from medtune.trainer.recipe.schema import ModelBlock, Recipe
from medtune.trainer.seen.learnt import NOTHING, UNKNOWN, Learnt, asked_again, comparable, learnt_from, read_learnt
from medtune.trainer.seen.weights_facts import facts_before
from medtune.trainer.training.mixture import TrainingSet, stage_mixture


def learnt_before(model: ModelBlock) -> Learnt:
    """Returns what the weights that a recipe begins with were trained on, as far as they say it."""
    return NOTHING.joined(read_learnt(facts) or UNKNOWN for facts in facts_before(model))


def seen_before(model: ModelBlock, groups: Sequence[MediaGroup], contents: Mapping[str, str]) -> str:
    """Returns how many of the evaluated media groups the recipe's weights were trained on.

    Returns:
        Numbers of patients and questions; `NOT_RECORDED` if trained weights do not say what they were trained on, or
        say it under another user's patient key; "" if none of the patients and media was trained on, or the recipe
        begins with weights of others.
    """
    learnt = learnt_before(model)
    return asked_again(learnt, groups, contents) or ("" if comparable(learnt) else NOT_RECORDED)


def learnt_in_all(recipe: Recipe, training_sets: Sequence[TrainingSet], *, limit: int | None) -> Learnt:
    """Returns what a model has learnt from once the recipe's training has ended, earlier trainings included."""
    mixtures = [stage_mixture(recipe, stage, training_sets, limit=limit) for stage in recipe.stages]
    groups = (group for mixture in mixtures for member in mixture.members for group in member.groups)
    # Files of two folders have one name only if they are the same.
    contents = {name: shown for each in training_sets for name, shown in each.prepared.contents.items()}
    now = learnt_from(groups, contents)
    return now.joined([learnt_before(recipe.model)])
