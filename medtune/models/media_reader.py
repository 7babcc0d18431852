"""Reads the media of an evaluation, in processes of its own ahead of the answers, and counts how long answers wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from medtune.data.media.load import load_media
from medtune.data.types import Media, MediaRef
from medtune.models.contract import MediaItem, Transform
from medtune.models.loaded_ahead import AHEAD, Turns
from medtune.models.volumes.volume_input import VolumeInput


def unchanged(media: Media) -> Media:
    """Returns the media item as it was decoded."""
    return media


def read_item(ref: MediaRef, transform: Transform, *, change: Callable[[Media], Media] = unchanged) -> MediaItem:
    """Returns one media item, decoded and prepared for the tower.

    Args:
        ref: The files of the media item.
        transform: The preparation for the tower.
        change: A change of the decoded item, which training makes before the preparation; it must keep the size.
    """
    if isinstance(transform, VolumeInput) and ref.kind == "volume":
        return transform.read(ref) if change is unchanged else transform.changed(ref, change)
    media = load_media(ref, transform.sampling)
    try:
        return transform(change(media))
    except ValueError as error:
        raise ValueError(f"{ref.path}: {error}") from error


Shown = tuple[MediaRef, ...]
"""The media items that are shown together."""


class MediaReader:
    """Gives the media items of one group after another, as `read_item` does.

    As a context it ends its processes.

    Args:
        transform: The preparation for the tower.
        workers: Number of processes that read ahead; 0 reads each group when it is needed.

    Attributes:
        waited_s: The seconds that the caller of `next` and `read` has waited so far.
    """

    def __init__(self, transform: Transform, *, workers: int = 0) -> None:
        self.waited_s = 0.0
        self._transform = transform
        self._workers = workers
        self._coming: Iterator[list[MediaItem]] = iter(())
        self._turns: Turns | None = None

    def expect(self, groups: Sequence[Shown]) -> None:
        """Announces the groups that `next` will give, in that order, each as often as it is needed."""
        self.close()
        workers = min(self._workers, len(groups))
        self._coming = self._ahead(groups, workers) if workers else self._one_by_one(groups)

    def next(self) -> list[MediaItem]:
        """Returns the items of the next group that was announced."""
        started = time.perf_counter()
        try:
            return next(self._coming)
        finally:
            self.waited_s += time.perf_counter() - started

    def read(self, group: Shown) -> list[MediaItem]:
        """Returns the items of a group that was not announced."""
        started = time.perf_counter()
        try:
            return _items(group, self._transform)
        finally:
            self.waited_s += time.perf_counter() - started

    def close(self) -> None:
        """Ends the processes that read ahead, and forgets what was announced."""
        if self._turns is not None:
            self._turns.end()
        self._turns, self._coming = None, iter(())

    def __enter__(self) -> MediaReader:
        return self

    def __exit__(self, *told: object) -> None:
        self.close()

    def _one_by_one(self, groups: Sequence[Shown]) -> Iterator[list[MediaItem]]:
        for group in groups:
            yield _items(group, self._transform)

    def _ahead(self, groups: Sequence[Shown], workers: int) -> Iterator[list[MediaItem]]:
        turns = self._turns = Turns(workers)
        # The loader draws a seed for its processes; from the generator of the whole process it would change the run.
        loader = DataLoader(
            _Groups(groups, self._transform, turns),
            batch_size=None,
            collate_fn=_unchanged,
            num_workers=workers,
            prefetch_factor=AHEAD,
            generator=torch.Generator(),
            worker_init_fn=turns.leave_stopping_to_the_parent,
        )
        for number, found in enumerate(loader):
            turns.taken(number)
            if isinstance(found, _Refused):
                raise found.kind(found.message)
            yield found


class _Refused(NamedTuple):
    kind: type[FileNotFoundError] | type[ValueError]
    message: str


class _Groups(Dataset["list[MediaItem] | _Refused"]):
    def __init__(self, groups: Sequence[Shown], transform: Transform, turns: Turns) -> None:
        self._groups = groups
        self._transform = transform
        self._turns = turns

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, number: int) -> list[MediaItem] | _Refused:
        self._turns.wait(number)
        try:
            found = _items(self._groups[number], self._transform)
        except FileNotFoundError as error:
            return _Refused(FileNotFoundError, str(error))
        except ValueError as error:
            return _Refused(ValueError, str(error))
        self._turns.loaded(found)
        return found


def _items(group: Shown, transform: Transform) -> list[MediaItem]:
    return [read_item(ref, transform) for ref in group]


def _unchanged(found: list[MediaItem] | _Refused) -> list[MediaItem] | _Refused:
    return found
