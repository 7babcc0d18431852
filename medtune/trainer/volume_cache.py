"""Says which volumes the runs of a recipe read, and fills its cache of them in several processes, without a model."""

from __future__ import annotations

import errno
import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from medtune.data.grouping import grouped
from medtune.data.media.volumes.cache import Entry, VolumeCache
from medtune.data.media.volumes.read import volume_grid
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.work.processes import in_processes
from medtune.data.prepared.work.work_folder import DIED
from medtune.data.types import MediaRef, Split
from medtune.models.volumes.ctvit_code_input import CodesInput
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.export import volume_input
from medtune.models.weights.loading_options import Loading
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.mixture import folders_of

_MEASURED = 50
"""The number of scans whose headers are read to say how many bytes an entry takes."""

EntryOf = Callable[[MediaRef, VolumeCache], Entry]
"""A function that returns the entry of a volume in a cache; processes get it with their tasks."""
GB = 1e9


class WantedVolumes(NamedTuple):
    """The volumes that the runs of a recipe read through the cache."""

    input: VolumeInput
    cache: VolumeCache
    # For each scan, the entries that are made of it: one, or one for each organ that is looked at.
    scans: tuple[tuple[MediaRef, ...], ...]

    @property
    def volumes(self) -> int:
        return sum(map(len, self.scans))

    def entry_bytes(self, scans: Sequence[Sequence[MediaRef]]) -> float:
        """Returns the bytes of an entry, at most, on average over some of the scans; 0 where none can be read."""
        measured = list(_most_bytes(self.input, [refs[0] for refs in scans[:: max(1, len(scans) // _MEASURED)]]))
        return sum(measured) / len(measured) if measured else 0.0


def wanted(recipe: Recipe) -> WantedVolumes | None:
    """Returns what the runs of a recipe read through the cache; None where its model reads no volumes as such."""
    if recipe.model.endpoint is not None:
        return None
    reads = volume_input(recipe.model.name, recipe.train.seed, recipe.model)
    if reads is None:
        return None
    prepared, _ = open_for_model(
        recipe.data.root, recipe.data.benchmark, recipe.model, folds=(recipe.data.folds, recipe.data.fold)
    )
    cache = VolumeCache(prepared.cache_folder)
    found: dict[str, MediaRef] = {}
    for ref in _refs(recipe, prepared):
        found.setdefault(reads.entry(ref, cache).name, ref)
    scans = grouped(found.values(), lambda ref: ref.path)
    return WantedVolumes(reads, cache, tuple(map(tuple, scans.values())))


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


class Task(NamedTuple):
    """The entries of one scan that are to be made."""

    folder: Path
    entry_of: EntryOf
    refs: tuple[MediaRef, ...]  # The scan, once for each entry.


def make_entries(task: Task) -> list[str | None]:
    """Makes the entries of one scan, and returns for each the reason why it could not be made, or None."""
    cache = VolumeCache(task.folder)
    return [_fill_entry(cache, task.entry_of, ref) for ref in task.refs]


def _fill_entry(cache: VolumeCache, entry_of: EntryOf, ref: MediaRef) -> str | None:
    try:
        entry = entry_of(ref, cache)
        if cache.holds(entry):
            return None
        kept = entry.make()
    except (ValueError, OSError) as error:
        return str(error)
    except MemoryError:
        return f"{ref.path}: memory ran out; give fewer processes (-j)"
    cache.write(entry, kept)
    return None


def by_transform(transform: VolumeTransform, ref: MediaRef, cache: VolumeCache) -> Entry:
    return cache.entry(ref, transform)


def by_tower(model: str, seed: int, loading: Loading, ref: MediaRef, cache: VolumeCache) -> Entry:
    """Returns the entry of a volume that the tower of a model makes, which each process loads once."""
    return _with_tower(model, seed, loading).entry(ref, cache)


@functools.lru_cache(maxsize=1)
def _with_tower(model: str, seed: int, loading: Loading) -> VolumeInput:
    found = volume_input(model, seed, loading)
    if found is None:
        raise TypeError(f"{model} reads no volumes")
    return found


class Filled(NamedTuple):
    made: int
    there: int
    broken: tuple[tuple[Path, str], ...]  # The scans of which there is no entry, and why, in the order of the data.


def fill(recipe: Recipe, wanted: WantedVolumes, *, processes: int, say: Callable[[str], None]) -> Filled:
    """Makes the entries that the cache does not have, one task for each scan.

    An entry appears whole under the name of its content, so that runs and other commands may use the cache meanwhile.
    """
    cache, entry_of = wanted.cache, _entry_of(recipe, wanted)
    cache.remove_unfinished()
    # Whether an entry is there is asked for all before the first is made.
    missing = [tuple(ref for ref in refs if not cache.holds(wanted.input.entry(ref, cache))) for refs in wanted.scans]
    tasks = [Task(cache.folder, entry_of, refs) for refs in missing if refs]
    left = sum(len(task.refs) for task in tasks)
    say(_plan(wanted, [task.refs for task in tasks]))
    reasons: dict[int, list[str | None]] = {}
    try:
        for done in in_processes(make_entries, tasks, processes=processes):
            reasons[done.number] = done.result or [DIED] * len(tasks[done.number].refs)
            if len(reasons) % max(1, len(tasks) // 10) == 0:
                say(f"{len(reasons)} of {len(tasks)} scans are done")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ValueError(
            f"{cache.folder}: {error.strerror}. What is finished is kept, nothing is half-written; make room and "
            "give the same command again"
        ) from error
    broken = [
        (ref.path, why.removeprefix(f"{ref.path}: "))
        for number in sorted(reasons)
        for ref, why in zip(tasks[number].refs, reasons[number], strict=True)
        if why is not None
    ]
    return Filled(left - len(broken), wanted.volumes - left, tuple(broken))


def _entry_of(recipe: Recipe, wanted: WantedVolumes) -> EntryOf:
    if not isinstance(wanted.input, CodesInput):
        return functools.partial(by_transform, wanted.input.prepare)
    loading = Loading(**{field.name: getattr(recipe.model, field.name) for field in fields(Loading)})
    return functools.partial(by_tower, recipe.model.name, recipe.train.seed, loading)


def _plan(wanted: WantedVolumes, scans: list[tuple[MediaRef, ...]]) -> str:
    number = sum(map(len, scans))
    lines = [f"cache      {wanted.cache.folder}: {wanted.volumes} volumes, {wanted.input.kept_as}"]
    if number:
        each, free = wanted.entry_bytes(scans), _free(wanted.cache.folder)
        room = f"at most {size_said(each)} each and {size_said(number * each)} in all; {size_said(free)} are free"
        lines.append(f"to write   {number} volumes of {len(scans)} scans, {room}")
        if number * each > free:
            lines.append("WARNING    this may not fit on the disk")
    else:
        lines.append("to write   nothing: every volume is there")
    return "\n".join(lines)


def size_said(size: float) -> str:
    """Returns a number of bytes in words.

    >>> size_said(512), size_said(8_388_608), size_said(2.05e12)
    ('512 bytes', '8.4 MB', '2050.0 GB')
    """
    if size < 1e5:
        return f"{size:.0f} bytes"
    return f"{size / 1e6:.1f} MB" if size < GB else f"{size / GB:.1f} GB"


def _free(folder: Path) -> int:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(there).free
