"""`eval.protocol: published` takes temperature, repeats and token limit from the benchmark's own protocol."""

from __future__ import annotations

import dataclasses

from medtune.eval.benchmark import Benchmark
from medtune.trainer.recipe import Recipe


def as_published(recipe: Recipe, judged_by: Benchmark) -> Recipe:
    """Returns the recipe with the benchmark's protocol where it asks for it.

    A greedy reply is said once, whatever was published.

    Raises:
        ValueError: The benchmark's authors published none.
    """
    if recipe.eval.protocol == "recipe":
        return recipe
    published = judged_by.protocol
    if published is None:
        raise ValueError(f"eval.protocol is published; no protocol of {judged_by.title} is known. Leave it out")
    endpoint = recipe.model.endpoint
    evaluation = dataclasses.replace(
        recipe.eval,
        max_new_tokens=published.max_new_tokens or recipe.eval.max_new_tokens,
        temperature=0.0 if endpoint else published.temperature,
        repeats=published.repeats if published.temperature > 0 else 1,
    )
    asked = endpoint and dataclasses.replace(endpoint, temperature=published.temperature)
    return dataclasses.replace(recipe, eval=evaluation, model=dataclasses.replace(recipe.model, endpoint=asked))


def protocol_facts(recipe: Recipe, judged_by: Benchmark) -> dict[str, object]:
    """Returns what was used and, for comparison, what the benchmark's authors published."""
    endpoint, published = recipe.model.endpoint, judged_by.protocol
    return {
        "used": {
            "temperature": recipe.eval.temperature if endpoint is None else endpoint.temperature,
            "repeats": recipe.eval.repeats,
            "max_new_tokens": recipe.eval.max_new_tokens,
        },
        "published": dataclasses.asdict(published) if published else None,
    }
