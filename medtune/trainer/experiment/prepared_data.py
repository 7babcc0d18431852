"""Opens a prepared folder as a recipe's model looks at it, and draws media groups from its splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import MediaGroup, Split
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import ZooEntry, any_entry
from medtune.trainer.recipe.schema import ModelBlock


def open_for_model(
    root: Path, benchmark_name: str, model: ModelBlock, *, named_by: str = "data.benchmark is"
) -> tuple[Prepared, Benchmark]:
    """Returns the folder, and the benchmark in the words that the folder was prepared with.

    For a model that looks at one organ at a time, each organ of a volume has a group of its own.

    Args:
        root: The prepared folder.
        benchmark_name: The benchmark that it has to be prepared for.
        model: The block `model` of the recipe.
        named_by: The field that names the benchmark, for the message.

    Raises:
        FileNotFoundError: The folder, or a media file in it, is missing.
        ValueError: It is no prepared folder, was written in another format, is damaged, was prepared for another
            benchmark, or has official prompts that cannot be used.
    """
    prepared, entry = open_prepared(root), any_entry(model.name)
    refuse_other_benchmark(prepared, benchmark_name, named_by=named_by)
    by_organ = isinstance(entry, ZooEntry) and entry.by_organ and model.crop_organs is None
    prepared = replace(prepared, by_organ=by_organ)
    return prepared, with_prepared_prompts(find_benchmark(benchmark_name), prepared, volumes_as=model.shows_volumes_as)


def refuse_other_benchmark(prepared: Prepared, benchmark_name: str, *, named_by: str) -> None:
    """Refuses a folder that was prepared for another benchmark.

    Raises:
        ValueError: It was; the message names both.
    """
    made_for = prepared.manifest.benchmark
    if made_for != benchmark_name:
        raise ValueError(f"{prepared.root} was prepared for the benchmark {made_for!r}; {named_by} {benchmark_name!r}")


def groups_of(prepared: Prepared, split: Split, *, questions: int | None, seed: int) -> tuple[MediaGroup, ...]:
    """Returns the groups of a split, or about as many as hold `questions` questions.

    Raises:
        ValueError: The split is empty.
    """
    groups = limited(prepared.groups(split), questions=questions, seed=seed)
    if not groups:
        raise ValueError(f"{prepared.root}: the split {split!r} is empty; prepare the folder with patients in it")
    return groups


def limited(groups: Sequence[MediaGroup], *, questions: int | None, seed: int) -> tuple[MediaGroup, ...]:
    """Returns as many groups, drawn with the seed, as hold about `questions` questions; all of them for None.

    Their order is that of `groups`. A group is never cut, so the last one may go over the number.
    """
    if questions is None:
        return tuple(groups)
    chosen: set[int] = set()
    held = 0
    for index in np.random.default_rng(seed).permutation(len(groups)).tolist():
        if held >= questions:
            break
        chosen.add(index)
        held += len(groups[index].questions)
    return tuple(groups[index] for index in sorted(chosen))
