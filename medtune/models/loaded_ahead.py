"""Bounds how much the processes that load media hold in shared memory, however large a model's items are.

torch's loader has each process load two micro-batches ahead. With 32 processes and micro-batches of 32 CTs of CT-CHAT
(216 MB each) that is 442 GB for each device. Here a process waits before it loads a micro-batch that lies too far ahead
of the one that is taken next, so that all that wait together stay under LOADED_BYTES. An evaluation loads the media of
one visit where training loads a micro-batch.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.util import Finalize

from torch import Tensor

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


def batches_ahead(workers: int, batch_bytes: float) -> int:
    """Returns how many micro-batches are loaded or waiting at once for one device; without processes none waits."""
    if workers == 0:
        return 0
    most = workers * AHEAD
    return min(most, max(int(LOADED_BYTES // batch_bytes), _LEAST)) if batch_bytes else most


def loader_bytes(workers: int, batch_bytes: float) -> float:
    """Returns the shared memory that the loader of one device holds at most.

    Args:
        workers: Number of processes that load, `data.workers`.
        batch_bytes: The size of the media of one micro-batch as the model's transform gives them.
    """
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

    Raises:
        LostReaderError: A process was lost.
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
            f"a process that reads media has ended ({str(error).strip()}). If the system ran out of memory, lower "
            "data.workers. What was answered or saved is kept, and --resume continues"
        ) from error


class Turns:
    """Tells the loading processes of one device how far ahead they may load; the largest micro-batch so far decides.

    Args:
        workers: Number of processes that load.
    """

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

        Args:
            worker: The number of the process, which torch passes to its `worker_init_fn`.
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
