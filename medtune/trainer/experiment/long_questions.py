"""Refuses questions that are longer than the model's context; `validate` and every run make the same check.

Only those that are likely to be longest are counted: those with the longest texts, and those with the most media.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from pathlib import Path
from typing import NamedTuple

import torch

from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup, Prompt, Question, Split
from medtune.eval.benchmark import Benchmark
from medtune.models.contract import Assembled
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.weights.export import assemble_model
from medtune.trainer.experiment.prepared_data import groups_of, tested
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.mixture import TrainingSet, stage_mixture

LONGEST = 50
"""The number of answers or questions, the longest in characters, whose tokens are counted."""


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
    for each in _asked(recipe, prepared, benchmark, training_sets, limit=limit):
        answered = each.answered
        by_text = nlargest(LONGEST, _questions(each), key=lambda one: _characters(one[1], answered=answered))
        by_media = nlargest(LONGEST, _questions(each), key=lambda one: len(one[0].media))
        for group, question in (*by_text, *by_media):
            prompt = each.render(question)
            answer = prompt.target if each.answered or question.options else None
            shapes = tuple(map(assembled.transform.shape, group.media))
            try:
                assembled.family.layout(prompt.text, answer, shapes=shapes, turns=question.turns)
            except ValueError as error:
                where = f"{each.root}, split {each.split}, question {question.id}"
                raise ValueError(f"{where}, with {len(shapes)} media items: {error}") from error


def _asked(
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
