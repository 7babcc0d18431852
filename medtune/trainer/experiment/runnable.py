"""Refuses what a recipe's model cannot learn or be asked, before a run begins, for `validate` and every run alike.

The modules of the model are enough for what is learnt. They have no weights, so that the checks take no memory and no
download. Of questions, those that are likely to be longest are counted: those with the longest texts, and those with
the most media.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from pathlib import Path
from typing import NamedTuple

import torch

from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup, Prompt, Question, Split
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.features.feature_files import FeatureFiles
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.quantize import quantize_language, resolved
from medtune.models.tuning.starting_weights import check_starts
from medtune.models.weights.export import assemble_model, check_loading, is_exported
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.open_data import cannot_divide
from medtune.trainer.experiment.prepared_data import groups_of, tested
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.replies.check import check_losses
from medtune.trainer.training.mixture import TrainingSet, stage_mixture

LONGEST = 50
"""The number of answers or questions, the longest in characters, whose tokens are counted."""


def adapted_as_stages_say(recipe: Recipe, model: Model) -> tuple[str, ...]:
    """Adds the adapters of all stages to a model, which may be a skeleton; refuses what could not learn in one of them.

    Returns:
        Sentences about what the tuning leaves out.
    """
    tunings = [stage.tuning for stage in recipe.stages]
    notes = adapt(model, tunings, seed=recipe.train.seed)
    check_starts(model, tunings)
    for tuning in tunings:
        set_learning(model, tuning)
    return notes


def feature_files(recipe: Recipe) -> FeatureFiles | None:
    """Returns the files in which a recipe keeps features; None where it keeps them in memory alone."""
    folder = recipe.data.features_dir
    return None if folder is None else FeatureFiles(folder)


def refuse_unfit(recipe: Recipe, *, training: bool) -> None:
    """Refuses the fields of a recipe that its model or this machine does not take, and a tuning that does not fit."""
    check_losses(recipe)
    feature_files(recipe)
    if recipe.model.endpoint is not None:
        return
    entry = zoo_entry(recipe.model.name, recipe.model.weights)
    check_loading(recipe.model.name, entry, recipe.model)
    if not training or (recipe.model.weights is not None and is_exported(recipe.model.weights)):
        return
    # What the checks draw must not change what the run draws.
    with torch.random.fork_rng(devices=[]):
        model = entry.skeleton(recipe.model)
        if recipe.model.language_bits is not None:
            quantize_language(model, precision="32-true", device=torch.device("meta"))
        adapted_as_stages_say(recipe, model)
    if refused := cannot_divide(model, recipe):
        raise ValueError(refused)


def wrong_precision(recipe: Recipe) -> str | None:
    """Returns why the device of this machine cannot compute as train.precision says; None if it can."""
    try:
        resolved(recipe.train.precision, device_of_rank(0))
    except ValueError as error:
        return f"precision: {error}"
    return None


class _Asked(NamedTuple):
    root: Path
    split: Split
    groups: Sequence[MediaGroup]
    render: Callable[[Question], Prompt]
    answered: bool  # Whether all true answers are read; those of others only where they are options.


def refuse_long_questions(
    recipe: Recipe,
    prepared: Prepared,
    benchmark: Benchmark,
    training_sets: Sequence[TrainingSet],
    assembled: Assembled | None = None,
    *,
    limit: int | None = None,
) -> None:
    """Refuses a question that is asked or learnt and is longer than the model's context.

    Args:
        training_sets: What the model is trained on; empty if nothing is.
        assembled: The model, if it is at hand. Else it is put together here, without its weights where it can be.
        limit: About how many questions of each split are used; None uses all.
    """
    if recipe.model.endpoint is not None:
        return
    if assembled is None:
        # What this draws must not change what the run draws.
        with torch.random.fork_rng(devices=[]), leaving_weights_unread():
            assembled = assemble_model(recipe.model.name, recipe.train.seed, recipe.model)
    for each in _question_sets(recipe, prepared, benchmark, training_sets, limit=limit):
        answered = each.answered
        by_text = nlargest(LONGEST, _questions(each), key=lambda one: _characters(one[1], answered=answered))
        by_media = nlargest(LONGEST, _questions(each), key=lambda one: len(one[0].media))
        for group, question in (*by_text, *by_media):
            if any(ref.kind not in assembled.transform.kinds for ref in group.media):
                continue  # The kind is refused in words of its own.
            prompt = each.render(question)
            answer = prompt.target if each.answered or question.options else None
            shapes = tuple(map(assembled.transform.shape, group.media))
            try:
                assembled.template.layout(prompt.text, answer, shapes=shapes, turns=question.turns)
            except ValueError as error:
                where = f"{each.root}, split {each.split}, question {question.id}"
                raise ValueError(f"{where}, with {len(shapes)} media items: {error}") from error


def _question_sets(
    recipe: Recipe, prepared: Prepared, benchmark: Benchmark, training_sets: Sequence[TrainingSet], *, limit: int | None
) -> Iterator[_Asked]:
    def render(question: Question) -> Prompt:
        return benchmark.render(question, recipe.model.answer_format)

    yield _Asked(prepared.root, recipe.eval.split, tested(recipe, prepared, limit=limit), render, answered=False)
    if not training_sets:
        return
    wanted = [number for number in (limit, recipe.eval.val_questions) if number is not None]
    asked = groups_of(prepared, "val", questions=min(wanted, default=None), seed=recipe.train.seed)
    yield _Asked(prepared.root, "val", asked, render, answered=True)
    if recipe.train.text_only_share == 1:
        return
    for stage in recipe.stages:
        members = stage_mixture(recipe, stage, training_sets, limit=limit).members
        for learnt, member in zip(training_sets, members, strict=True):
            yield _Asked(learnt.prepared.root, "train", member.groups, member.render, answered=True)


def _questions(asked: _Asked) -> Iterator[tuple[MediaGroup, Question]]:
    return ((group, question) for group in asked.groups for question in group.questions)


def _characters(question: Question, *, answered: bool) -> int:
    said = sum(len(turn.asked) + len(turn.answer) for turn in question.turns)
    return said + len(question.text) + (len(question.answer) if answered else 0)
