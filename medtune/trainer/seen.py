"""What stands in a run's environment.json about its data and its settings, and what is different when it goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medtune.data.prepared.manifest import table_digests
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.tables import computed_hash
from medtune.data.types import SPLITS
from medtune.models.endpoint.settings import asked_alike
from medtune.models.weights.folder_hash import weights_hash
from medtune.trainer.recipe.judge import judged_alike
from medtune.trainer.recipe.schema import LogBlock, Recipe, Stage

DATA = "data"
"""The entry of environment.json with these facts."""
_HASH, _TABLES = "hash", "tables"
_SHOWN = 12

FREE: Mapping[str, tuple[str, ...]] = {
    "train": (
        "strategy", "devices", "nodes", "timeout_minutes", "save_every_steps", "save_every_minutes", "micro_batch_size",
        "micro_batch_tokens", "deterministic", "gradient_checkpointing",
    ),
    "data": ("workers", "cache", "features_gb", "features_dir"),
    "eval": ("batch_size", "batch_tokens"),
    "log": tuple(field.name for field in dataclasses.fields(LogBlock)),
}  # fmt: skip
"""The fields of each block that decide how the work is done, saved and shown, but not what comes out."""
_ANYWHERE = Path("(its content is compared)")
_MISSING = "(not there)"
_LATER = ("loss", "replies")
"""Blocks of a training and of a stage that came later; runs that began before have the same hash."""
ASKED = "asked_hash"
"""The entry of environment.json with the hash of what the run was asked to do."""


def data_facts(
    evaluated: Prepared, learnt: Iterable[Prepared], *, before: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns the facts about the evaluated prepared folder and the folders that are trained on, by their field.

    Folders of a mixture stand in the recipe's order, without the evaluated folder, which stands first. Where the bytes
    of a folder's tables are others than before, the hash is computed from its rows, and not believed: the bytes also
    differ where another user has prepared the same data.
    """
    others = [each for each in learnt if each.root.resolve() != evaluated.root.resolve()]
    named = {"data.root": evaluated, **{f"data.mixture.{number}": each for number, each in enumerate(others)}}
    return {name: _facts(prepared, before.get(name, {})) for name, prepared in named.items()}


def _facts(prepared: Prepared, before: Mapping[str, Any]) -> dict[str, Any]:
    made, tables = prepared.manifest, table_digests(prepared.root)
    is_known = before.get(_TABLES, tables) == tables
    return {
        _HASH: prepared.data_hash if is_known else computed_hash(prepared.root),
        _TABLES: tables,
        "source": made.source,
        "seed": made.seed,
        "limit": made.limit,
        "prompts": made.prompts,
        "format": made.format_version,
        **{f"{split} questions": prepared.num_questions(split) for split in SPLITS},
        **{f"{split} patients": made.num_patients.get(split, 0) for split in SPLITS},
    }


def changes(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns, for each prepared folder of now whose data are others than before, what is different, in words.

    Folders that were not recorded before, as in runs of earlier versions, are not compared.
    """
    there = {name: before[name] for name in now if name in before}
    return [f"{name}: {_differences(was, now[name])}" for name, was in there.items() if was[_HASH] != now[name][_HASH]]


def _differences(was: Mapping[str, Any], is_: Mapping[str, Any]) -> str:
    hashes = f"data hash {was[_HASH][:_SHOWN]} before and {is_[_HASH][:_SHOWN]} now"
    other = [
        f"{name} {was.get(name)} before and {value} now"
        for name, value in is_.items()
        if name not in (_HASH, _TABLES) and name in was and was[name] != value
    ]
    return "; ".join([hashes, *other]) if other else f"{hashes}; the questions, answers, splits or media differ"


def asks_the_same(recipe: Recipe) -> Recipe:
    """Returns the recipe without the settings that may change when a run is resumed.

    These are the fields in `FREE`, and the prices, the spending limit and the pace of an endpoint and of a judge's.
    Where a prepared folder lies may change too, because the hash of its data is compared.
    """
    blocks: dict[str, Any] = {
        block: replace(held, **{name: _default(type(held), name) for name in names})
        for block, names in FREE.items()
        for held in (getattr(recipe, block),)
    }
    mixture = tuple(replace(each, root=_ANYWHERE) for each in recipe.data.mixture)
    micro_batch = {name: _default(Stage, name) for name in ("micro_batch_size", "micro_batch_tokens")}
    stages = tuple(replace(each, **micro_batch) for each in recipe.train.stages)
    endpoint = None if recipe.model.endpoint is None else asked_alike(recipe.model.endpoint)
    return replace(
        recipe,
        data=replace(blocks["data"], root=_ANYWHERE, mixture=mixture),
        train=replace(blocks["train"], stages=stages),
        model=replace(recipe.model, endpoint=endpoint),
        eval=replace(blocks["eval"], judge=recipe.eval.judge and judged_alike(recipe.eval.judge)),
        log=blocks["log"],
    )


def asked_hash(recipe: Recipe) -> str:
    """Returns 16 hex digits of a hash of what decides a run's results, but for its data: the recipe as it was read.

    The files of a local checkpoint or adapter enter by `weights_hash`, in place of where they lie.
    """
    named = {name: getattr(recipe.model, name) for name in ("weights", "adapter", "checkpoint")}
    held = {name: weights_hash(Path(path)) for name, path in named.items() if path is not None and Path(path).is_dir()}
    fields = dict(_fields(asks_the_same(recipe)))
    stages = ((f"train.stages.{number}", stage) for number, stage in enumerate(recipe.train.stages))
    for where, block in (("train", recipe.train), *stages):
        usual = tuple(f"{where}.{name}." for name in _LATER if getattr(block, name) == type(getattr(block, name))())
        fields = {name: value for name, value in fields.items() if not name.startswith(usual)}
    # They came later too, and decide no result.
    del fields["data.features_gb"], fields["data.features_dir"]
    said = json.dumps(fields | {f"model.{name}": found for name, found in held.items()}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


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
