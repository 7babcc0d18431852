"""Says which settings of a recipe may change when a run is resumed, and what a command changed of the others."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from medtune.models.endpoint.settings import asked_alike
from medtune.trainer.recipe.schema import Recipe, Stage, TrainBlock

FREE = (
    "strategy",
    "devices",
    "nodes",
    "timeout_minutes",
    "save_every_steps",
    "save_every_minutes",
    "micro_batch_size",
    "micro_batch_tokens",
    "deterministic",
)
"""The fields of the block `train` that decide how a step is computed and saved, but not what it learns."""
_MISSING = "(not there)"


def asks_the_same(recipe: Recipe) -> Recipe:
    """Returns the recipe without the settings that may change when a run is resumed.

    These are the fields in `FREE`, and the prices, the spending limit and the pace of an endpoint.
    """
    plain = {name: _default(TrainBlock, name) for name in FREE}
    micro_batch = {name: _default(Stage, name) for name in ("micro_batch_size", "micro_batch_tokens")}
    stages = tuple(replace(each, **micro_batch) for each in recipe.train.stages)
    endpoint = None if recipe.model.endpoint is None else asked_alike(recipe.model.endpoint)
    return replace(
        recipe,
        train=replace(recipe.train, stages=stages, **plain),
        model=replace(recipe.model, endpoint=endpoint),
    )


def differences(before: Recipe, now: Recipe) -> list[str]:
    """Returns, for each setting that may not change when a run is resumed, what it was and what it is."""
    there, here = (dict(_fields(asks_the_same(recipe))) for recipe in (before, now))
    names = list(dict.fromkeys([*there, *here]))
    return [
        f"{name} is {there.get(name, _MISSING)} there and {here.get(name, _MISSING)} here"
        for name in names
        if there.get(name, _MISSING) != here.get(name, _MISSING)
    ]


def _default(block: type[Any], name: str) -> Any:
    return next(field.default for field in dataclasses.fields(block) if field.name == name)


def _fields(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and any(dataclasses.is_dataclass(each) for each in value):
        value = {str(number): each for number, each in enumerate(value)}
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _fields(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)
