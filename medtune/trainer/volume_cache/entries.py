"""Makes entries of a cache of volumes; this is the work that several processes share.

Nothing of models is imported here, unless a tower makes the entries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from medtune.data.media.volumes.cache import Entry, VolumeCache
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.types import MediaRef

if TYPE_CHECKING:
    from medtune.models.volumes.volume_input import VolumeInput
    from medtune.models.weights.loading_options import Loading

EntryOf = Callable[[MediaRef, VolumeCache], Entry]
"""A function that returns the entry of a volume in a cache; processes get it with their tasks."""


class Task(NamedTuple):
    """The entries of one scan that are to be made.

    Attributes:
        folder: The folder of the cache.
        entry_of: Returns the entry of a volume.
        refs: The scan, once for each entry.
    """

    folder: Path
    entry_of: EntryOf
    refs: tuple[MediaRef, ...]


def make_entries(task: Task) -> list[str | None]:
    """Makes the entries of one scan, and returns for each the reason why it could not be made, or None."""
    cache = VolumeCache(task.folder)
    return [_made(cache, task.entry_of, ref) for ref in task.refs]


def _made(cache: VolumeCache, entry_of: EntryOf, ref: MediaRef) -> str | None:
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
    """Returns the entry of a volume that a transform makes."""
    return cache.entry(ref, transform)


def by_tower(model: str, seed: int, loading: Loading, ref: MediaRef, cache: VolumeCache) -> Entry:
    """Returns the entry of a volume that the tower of a model makes, which each process loads once."""
    return _with_tower(model, seed, loading).entry(ref, cache)


@functools.lru_cache(maxsize=1)
def _with_tower(model: str, seed: int, loading: Loading) -> VolumeInput:
    from medtune.models.weights.preparation import volume_input

    found = volume_input(model, seed, loading)
    if found is None:
        raise TypeError(f"{model} reads no volumes")
    return found
