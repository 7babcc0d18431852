"""Says which volumes the runs of a recipe will read, in which form the cache keeps them, and how much room that takes.

No model is loaded for it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.read import volume_grid
from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaRef, Split
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.preparation import volume_input
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.mixture import folders_of

_MEASURED = 50
"""The number of scans whose headers are read to say how many bytes an entry takes."""


class Wanted(NamedTuple):
    """The volumes that the runs of a recipe read through the cache.

    Attributes:
        input: How the model reads a volume.
        cache: The cache.
        scans: For each scan, the entries that are made of it: one, or one for each organ that is looked at.
    """

    input: VolumeInput
    cache: VolumeCache
    scans: tuple[tuple[MediaRef, ...], ...]

    @property
    def volumes(self) -> int:
        """The number of entries."""
        return sum(map(len, self.scans))

    def entry_bytes(self, scans: Sequence[Sequence[MediaRef]]) -> float:
        """Returns the bytes of an entry, at most, on average over some of the scans; 0 where none can be read."""
        measured = list(_most_bytes(self.input, [refs[0] for refs in scans[:: max(1, len(scans) // _MEASURED)]]))
        return sum(measured) / len(measured) if measured else 0.0


def wanted(recipe: Recipe) -> Wanted | None:
    """Returns what the runs of a recipe read through the cache; None where its model reads no volumes as such."""
    if recipe.model.endpoint is not None:
        return None
    reads = volume_input(recipe.model.name, recipe.train.seed, recipe.model)
    if reads is None:
        return None
    prepared, _ = open_for_model(recipe.data.root, recipe.data.benchmark, recipe.model)
    check_organs(recipe, prepared)
    cache = VolumeCache(prepared.cache_folder)
    found: dict[str, MediaRef] = {}
    for ref in _refs(recipe, prepared):
        found.setdefault(reads.entry(ref, cache).name, ref)
    scans: dict[Path, list[MediaRef]] = {}
    for ref in found.values():
        scans.setdefault(ref.path, []).append(ref)
    return Wanted(reads, cache, tuple(map(tuple, scans.values())))


def check_organs(recipe: Recipe, prepared: Prepared) -> None:
    """Checks that the prepared folder has masks of the organs that the recipe crops to."""
    there = prepared.organs
    if unknown := sorted(set(recipe.model.crop_organs or ()) - there):
        raise ValueError(
            f"model.crop_organs: {prepared.root} has no mask of {unknown[0]}; it has masks of: "
            f"{', '.join(sorted(there)) or 'none at all'}"
        )


def _refs(recipe: Recipe, prepared: Prepared) -> Iterator[MediaRef]:
    own: list[Split] = ["val", recipe.eval.split]
    for named in folders_of(recipe.data):
        if named.root.resolve() == recipe.data.root.resolve():
            own.insert(0, "train")
        else:
            yield from _of_splits(open_for_model(named.root, named.benchmark, recipe.model)[0], ["train"])
    yield from _of_splits(prepared, list(dict.fromkeys(own)))


def _of_splits(prepared: Prepared, splits: Sequence[Split]) -> Iterator[MediaRef]:
    for split in splits:
        for group in prepared.groups(split):
            yield from (ref for ref in group.media if ref.kind == "volume")


def _most_bytes(reads: VolumeInput, refs: Sequence[MediaRef]) -> Iterator[int]:
    for ref in refs:
        try:
            yield reads.most_bytes(volume_grid(ref.path))
        except (OSError, ValueError):
            # A broken scan is named when its entry is made.
            continue
