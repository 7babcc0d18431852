"""Chooses how answers are read from the questions that are asked."""

import dataclasses
from collections.abc import Sequence

from medtune.data.types import Question, Reading
from medtune.eval.asking.conditions import READINGS
from medtune.eval.benchmark import Benchmark
from medtune.trainer.recipe.schema import Recipe


def with_readings(recipe: Recipe, asked: Sequence[Question]) -> Recipe:
    """Returns the recipe with readings that fit the questions; readings that it names stay, where they can be made.

    Without named readings, questions with options are read by likelihood and by generation, and free ones by generation
    alone, as are all questions to a served model without `prompt_logprobs`. If no question has options, a likelihood
    that is named beside generation is left out, because there is nothing to compute it of.

    Args:
        recipe: The recipe.
        asked: The questions of the split that is evaluated.
    """
    named = recipe.eval.readings
    has_options = any(question.options for question in asked)
    fitting: tuple[Reading, ...] = READINGS if named is None else named
    endpoint = recipe.model.endpoint
    unlikely = named is None and endpoint is not None and not endpoint.prompt_logprobs
    if "generation" in fitting and (not has_options or unlikely):
        fitting = ("generation",)
    return dataclasses.replace(recipe, eval=dataclasses.replace(recipe.eval, readings=fitting))


def primary_parser(recipe: Recipe, benchmark: Benchmark) -> str:
    """Returns the name of the parser whose readings give the score `overall`."""
    if recipe.eval.parser is not None:
        return recipe.eval.parser
    return "likelihood" if recipe.eval.known_readings[0] == "likelihood" else next(iter(benchmark.parsers))
