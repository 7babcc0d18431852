"""Measures which share of the time of answering a model in this process waits for its media."""

import time
from collections.abc import Callable

from medtune.models.answering import LocalAnswerer
from medtune.trainer.devices.ranks import highest

WORTH_A_WORD = 0.05
"""The share from which on a message says how to wait less (our own choice)."""
_PARTS = 1_000_000
_NOTHING = -1


class Waiting:
    """Watches the groups that are done, and passes them on.

    Args:
        answerer: The model that answers.
        on_group: Called with (groups done, groups of this rank).
    """

    def __init__(self, answerer: LocalAnswerer, on_group: Callable[[int, int], None]) -> None:
        self._answerer = answerer
        self._on_group = on_group
        self._done = 0
        self._began_s = self._ended_s = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Notes the time, and passes the numbers on."""
        self._ended_s = time.perf_counter()
        if done == 0:
            self._began_s = self._ended_s
        self._done = done
        self._on_group(done, total)

    def share(self) -> float | None:
        """Returns the share, 0 to 1, of the rank that waited most; None if no rank had groups. All ranks call it."""
        if self._done == 0 or self._ended_s == self._began_s:
            parts = _NOTHING
        else:
            parts = round(_PARTS * self._answerer.waited_s / (self._ended_s - self._began_s))
        most = highest(parts)
        return None if most == _NOTHING else most / _PARTS


def waiting_text(share: float, *, workers: int) -> str:
    """Returns a message about the share; `workers` is the number of processes that read media.

    Example:
        >>> waiting_text(0.25, workers=0)
        'waited for media 25.0 % of the time; processes that read ahead (data.workers) would shorten that'
    """
    text = f"waited for media {100 * share:.1f} % of the time"
    if share < WORTH_A_WORD:
        return text
    more = "more processes" if workers else "processes"
    return f"{text}; {more} that read ahead (data.workers) would shorten that"
