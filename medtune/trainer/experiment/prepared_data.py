"""Opens a prepared folder with the prompts of its benchmark, and draws media groups from its splits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import MediaGroup, Split
from medtune.eval.asking.official_prompts import ShownAs
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.benchmark import Benchmark
from medtune.trainer.recipe.schema import ModelBlock, Recipe


def open_with_prompts(
    root: Path,
    benchmark_name: str,
    model: ModelBlock,
    *,
    folds: tuple[int | None, int | None] = (None, None),
    named_by: str = "data.benchmark is",
) -> tuple[Prepared, Benchmark]:
    """Returns the opened folder, and the benchmark with the prompts that the folder was prepared with.

    Args:
        model: The block `model` of the recipe, which says how the model is shown media.
        folds: The number of folds that the folder is divided into and the one that is asked, if it is to be.
        named_by: The words before the benchmark's name in an error message, which tell the field that names it.
    """
    prepared = open_prepared(root)
    refuse_other_benchmark(prepared, benchmark_name, named_by=named_by)
    prepared = prepared.in_folds(*folds)
    return prepared, with_prepared_prompts(find_benchmark(benchmark_name), prepared, shown=_shown_as(model))


def _shown_as(model: ModelBlock) -> ShownAs:
    endpoint = model.endpoint
    if endpoint is None:
        return ShownAs(model.volumes_as)
    return ShownAs(
        endpoint.volumes_as, videos_as_pictures=True, pictures_per_s=endpoint.video_frames_per_s, agent=endpoint.agent
    )


def refuse_other_benchmark(prepared: Prepared, benchmark_name: str, *, named_by: str) -> None:
    """Refuses a folder that was prepared for another benchmark."""
    made_for = prepared.manifest.benchmark
    if made_for != benchmark_name:
        raise ValueError(f"{prepared.root} was prepared for the benchmark {made_for!r}; {named_by} {benchmark_name!r}")


def groups_of(prepared: Prepared, split: Split, *, questions: int | None, seed: int) -> tuple[MediaGroup, ...]:
    """Returns the media groups of a split, or a random part of them with about `questions` questions."""
    groups = limited(prepared.groups(split), questions=questions, seed=seed)
    if not groups:
        raise ValueError(f"{prepared.root}: the split {split!r} is empty; prepare the folder with patients in it")
    return groups


def tested(recipe: Recipe, prepared: Prepared, *, limit: int | None) -> tuple[MediaGroup, ...]:
    """Returns the media groups that results are measured on, with about `limit` questions; None takes all."""
    wanted = [number for number in (limit, recipe.eval.questions) if number is not None]
    return groups_of(prepared, recipe.eval.split, questions=min(wanted, default=None), seed=recipe.train.seed)


def limited(groups: Sequence[MediaGroup], *, questions: int | None, seed: int) -> tuple[MediaGroup, ...]:
    """Returns randomly drawn groups that hold about `questions` questions together; all groups if it is None.

    The drawn groups keep the order of `groups`. Groups are taken whole, so that the result may hold some questions more
    than `questions`.
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


def whole_test(prepared: Prepared) -> str | None:
    """Returns a message that says why a folder holds only a test split and how to divide it.

    Returns None if its source is not for evaluation only, or if the folder was divided already.

    Only `medtune prepare` divides a data set. The folder then holds the splits and records how they were made.
    """
    made = prepared.manifest
    if made.unofficial_split is not None or not find_source(made.source).test_only:
        return None
    return (
        f"{made.benchmark} is for evaluation alone, so that all of it is test. To train on it nevertheless, divide it: "
        f"medtune prepare {made.benchmark} --source {made.source} --from ... --out ... --unofficial-split patient; "
        "every output then says so"
    )
