"""Reads media in processes of its own ahead of the answers, and bounds how much they hold in shared memory.

torch's loader has each process load two micro-batches ahead. With 32 processes and micro-batches of 32 CTs of CT-CHAT
(216 MB each) that is 442 GB for each device. Here a process waits before it loads a micro-batch (in an evaluation, a
visit's media) that lies too far ahead of the one that is taken next, so that all that wait together stay under
LOADED_BYTES.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from medtune.data.media.load import load_media
from medtune.data.types import Media, MediaRef

if TYPE_CHECKING:
    from medtune.models.contract import MediaItem, Transform

LOADED_BYTES = 16 * 1024**3
"""The size of the micro-batches that wait for one device, at most, unless two alone are larger (our own choice)."""
AHEAD = 2
"""Micro-batches that each process loads ahead. Source: torch.utils.data.DataLoader, prefetch_factor."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""What a terminal or a scheduler sends to all processes of a run."""
_LEAST = 2
_POLL_S = 0.005
_REPORTED_S = 1.0
_UNKNOWN = -1
_ENDED = -1

Shown = tuple[MediaRef, ...]
"""The media items that are shown together."""


def batches_ahead(workers: int, batch_bytes: float) -> int:
    """Returns how many micro-batches are loaded or waiting at once for one device; without processes none waits."""
    if workers == 0:
        return 0
    most = workers * AHEAD
    return min(most, max(int(LOADED_BYTES // batch_bytes), _LEAST)) if batch_bytes else most


def loader_bytes(workers: int, batch_bytes: float) -> float:
    """Returns the shared memory that the loader of one device holds at most."""
    return batches_ahead(workers, batch_bytes) * batch_bytes


def held_bytes(value: object) -> int:
    """Returns the size of the tensors in a batch, however they are nested."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(map(held_bytes, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return sum(map(held_bytes, value))
    if is_dataclass(value):
        return sum(held_bytes(getattr(value, field.name)) for field in fields(value))
    return 0


class LostReaderError(RuntimeError):
    """A process that loads media has ended, for instance because the system ran out of memory."""


@contextmanager
def lost_readers_named() -> Iterator[None]:
    """Says what it means if a process that loads media is lost while the block uses them.

    torch raises its error wherever the block is at that time, also in the middle of a forward pass.
    """
    try:
        try:
            yield
        except (ConnectionError, EOFError):
            # What a killed process shares breaks before the system reports its end, at which torch raises its error.
            time.sleep(_REPORTED_S)
            raise
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise
        raise LostReaderError(
            f"a process that reads media has ended ({str(error).strip()}). {_why_lost(str(error))}. What was answered "
            "or saved is kept, and --resume continues"
        ) from error


def _why_lost(said: str) -> str:
    if "Killed" in said:
        return "It was killed by SIGKILL. If the system ran out of memory, lower data.workers"
    if "Bus error" in said:
        return "The shared memory (/dev/shm) was full: lower data.workers, or give the container more of it"
    return "If the system ran out of memory, lower data.workers"


class LoadingTurns:
    """Tells the loading processes of one device how far ahead they may load; the largest micro-batch so far decides."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._next = multiprocessing.Value("q", 0)
        self._largest = multiprocessing.Value("q", _UNKNOWN)
        # No process may be left behind when this one ends, or lets go of them, by any way.
        Finalize(self, _end, args=(self._next,), exitpriority=0)

    def leave_stopping_to_the_parent(self, worker: int) -> None:
        """Lets this loading process ignore signals that ask a run to stop, because the process of the model decides.

        It would otherwise be gone before that process has stopped, which would look like a crash, and repeat its
        messages. Once nothing more is taken, SIGTERM ends it, by which Python ends the processes that it leaves behind.
        """
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0) if self._next.value == _ENDED else None)

    def begin(self, number: int) -> None:
        """Notes the first micro-batch that is taken."""
        self._next.value = number

    def taken(self, number: int) -> None:
        """Notes that a micro-batch was taken."""
        self._next.value = number + 1

    def end(self) -> None:
        """Notes that nothing more is taken, so that no process waits any longer."""
        _end(self._next)

    def wait(self, number: int) -> None:
        """Returns when a micro-batch may be loaded; called in a loading process.

        Raises:
            ConnectionError: Nothing more is taken, or the process that takes them is gone.
        """
        parent = os.getppid()
        while number >= (first := self._next.value) + self._ahead():
            if first == _ENDED or os.getppid() != parent:
                raise ConnectionError("the process that uses the media takes no more")
            time.sleep(_POLL_S)

    def _ahead(self) -> int:
        largest = self._largest.value
        return _LEAST if largest == _UNKNOWN else batches_ahead(self._workers, largest)

    def loaded(self, media: object) -> None:
        """Notes the size of a micro-batch that was loaded."""
        size = held_bytes(media)
        with self._largest.get_lock():
            self._largest.value = max(self._largest.value, size)


def _end(next_number: Synchronized[int]) -> None:
    next_number.value = _ENDED


def unchanged(media: Media) -> Media:
    """Returns the media item as it was decoded."""
    return media


def read_item(ref: MediaRef, transform: Transform, *, change: Callable[[Media], Media] = unchanged) -> MediaItem:
    """Returns one media item, decoded and prepared for the tower.

    Args:
        change: A change of the decoded item, which training makes before the preparation; it must keep the size.
    """
    if ref.kind == "volume":
        from medtune.models.volumes.volume_parts import VolumeInput

        if isinstance(transform, VolumeInput):
            return transform.read(ref) if change is unchanged else transform.changed(ref, change)
    media = load_media(ref, transform.sampling)
    try:
        return transform(change(media))
    except ValueError as error:
        raise ValueError(f"{ref.path}: {error}") from error


class MediaReader:
    """Gives the media items of one group after another, as `read_item` does.

    As a context it ends its processes.

    Args:
        workers: Number of processes that read ahead; 0 reads each group when it is needed.

    Attributes:
        waited_s: The seconds that the caller of `next` and `read` has waited so far.
    """

    def __init__(self, transform: Transform, *, workers: int = 0) -> None:
        self.waited_s = 0.0
        self._transform = transform
        self._workers = workers
        self._coming: Iterator[list[MediaItem]] = iter(())
        self._turns: LoadingTurns | None = None

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
        turns = self._turns = LoadingTurns(workers)
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
    def __init__(self, groups: Sequence[Shown], transform: Transform, turns: LoadingTurns) -> None:
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
