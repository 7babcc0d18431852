"""Notices the signals that ask a run to stop, and lets all ranks stop together.

While a model is trained or asked, a signal only sets a number: a handler that did more could meet the ranks in the
middle of a collective, and each at another one. At all other times it raises `Stopped` at once.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""Exit status after a stop that was asked for. Source: 128 + SIGINT, the convention of POSIX shells."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Stopped(KeyboardInterrupt):
    """Says that a signal asked the run to stop.

    It is no `Exception`, so that code that goes on after errors does not go on after it.

    Attributes:
        together: Whether all ranks stop at this place; otherwise the others may wait for this one.
    """

    def __init__(self, number: int, *, together: bool = False) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.together = together


class _Noticed:
    """What this process has been asked.

    Attributes:
        number: The last signal that asked to stop; 0 if none did.
        depth: How many `listening` blocks are open.
    """

    number = 0
    depth = 0


_noticed = _Noticed()


def asked_to_stop() -> int:
    """Returns the signal that asked this process to stop; 0 if none did."""
    return _noticed.number


def note_stop(number: int) -> None:
    """Takes over the signal that asked another rank to stop."""
    _noticed.number = number


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """Notices SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 inside the block; restores the earlier handlers after it.

    Outside of the main thread, where Python takes no handlers, the block changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _noticed.number = 0
    before: dict[int, Any] = {number: signal.signal(number, _notice) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _notice(number: int, frame: FrameType | None) -> None:
    at_once = not _noticed.depth or _noticed.number == number == signal.SIGINT
    _noticed.number = number
    if at_once:
        raise Stopped(number)
    if number == signal.SIGINT:
        print("\nstopping as soon as all can; a second Ctrl-C stops at once", file=sys.stderr, flush=True)


@contextlib.contextmanager
def listening(*, at_once: bool = False) -> Iterator[None]:
    """Lets a signal inside the block only set a number, which the block looks at where it can stop.

    A second Ctrl-C ends the process at once. The block takes the signals itself if no `stop_signals` is around it.

    Args:
        at_once: Whether a signal raises `Stopped` nevertheless, because no other rank waits for this one. The block
            looks at the number all the same: Python prints and drops what is raised in a destructor or a callback.
    """
    with contextlib.ExitStack() as stack:
        if signal.getsignal(signal.SIGTERM) is not _notice:
            stack.enter_context(stop_signals())
        _noticed.depth += not at_once
        try:
            yield
        finally:
            _noticed.depth -= not at_once
