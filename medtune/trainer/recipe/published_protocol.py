"""Applies `eval.protocol: published`: the temperature, repeats and token limit that a benchmark's authors state."""

import dataclasses
from collections.abc import Sequence

from medtune.data.types import Question, Reading
from medtune.eval.asking.conditions import READINGS
from medtune.eval.benchmark import Benchmark
from medtune.eval.results.schema import ProtocolFacts, UsedProtocol
from medtune.trainer.recipe.schema import Recipe


def as_published(recipe: Recipe, benchmark: Benchmark) -> Recipe:
    """Returns the recipe with the protocol of the benchmark's authors if it asks for that, else the recipe itself.

    A value that the authors do not state stays as it is in the recipe.
    """
    if recipe.eval.protocol == "recipe":
        return recipe
    published = benchmark.protocol
    if published is None:
        raise ValueError(f"eval.protocol is published; no protocol of {benchmark.title} is known. Leave it out")
    endpoint = recipe.model.endpoint
    own = recipe.eval.temperature if endpoint is None else endpoint.temperature
    temperature = own if published.temperature is None else published.temperature
    if temperature == 0 and published.repeats > 1:
        field = "eval.temperature" if endpoint is None else "model.endpoint.temperature"
        raise ValueError(
            f"eval.protocol is published; the authors of {benchmark.title} asked {published.repeats} times and do not "
            f"say at which temperature, and greedy answers do not differ: set {field} above 0, or leave the protocol "
            "out"
        )
    evaluation = dataclasses.replace(
        recipe.eval,
        max_new_tokens=published.max_new_tokens or recipe.eval.max_new_tokens,
        temperature=0.0 if endpoint or temperature is None else temperature,
        repeats=published.repeats,
        condition_repeats={**recipe.eval.condition_repeats, **published.condition_repeats},
    )
    asked = endpoint and dataclasses.replace(endpoint, temperature=temperature)
    return dataclasses.replace(recipe, eval=evaluation, model=dataclasses.replace(recipe.model, endpoint=asked))


def departure_from_published(recipe: Recipe, benchmark: Benchmark) -> str:
    """Returns how the recipe's answers depart from the published protocol, as a clause; "" if they do not.

    Settings that the authors do not state are not compared.
    """
    if recipe.eval.parser is None and recipe.eval.known_readings[0] == "likelihood":
        return "the likelihood of the options was read, while the published models replied in words"
    published, used = benchmark.protocol, protocol_facts(recipe, benchmark).used
    if published is None:
        return ""
    for name, theirs, ours in (
        ("temperature", published.temperature, used.temperature),
        ("number of repeats", published.repeats, used.repeats),
        ("length of replies in tokens", published.max_new_tokens, used.max_new_tokens),
    ):
        if theirs is not None and theirs != ours:
            return f"the {name} was {ours}, the published one is {theirs} (eval.protocol: published sets it)"
    return ""


def protocol_facts(recipe: Recipe, benchmark: Benchmark) -> ProtocolFacts:
    """Returns the protocol that the recipe uses, together with the one that the benchmark's authors published."""
    endpoint = recipe.model.endpoint
    used = UsedProtocol(
        temperature=recipe.eval.temperature if endpoint is None else endpoint.temperature,
        repeats=recipe.eval.repeats,
        condition_repeats=recipe.eval.condition_repeats,
        max_new_tokens=recipe.eval.max_new_tokens,
    )
    return ProtocolFacts(used=used, published=benchmark.protocol)


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
