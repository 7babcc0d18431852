"""The figures that a bench returns, and the measurement of time and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

GB = 1e9
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TwoWays:
    """Two ways to the same result, with the time that each took and how far their results differ.

    Attributes:
        title: The task that both ways do.
        quick: The quick way in words.
        plain: The plain way in words.
        quick_s: The seconds that the quick way took.
        plain_s: The seconds that the plain way took.
        apart: The largest difference between the two results.
        tolerance: The largest difference at which the results still count as the same.
        target: The smallest ratio of the plain way's time to the quick way's that is wanted.
    """

    title: str
    quick: str
    plain: str
    quick_s: float
    plain_s: float
    apart: float
    tolerance: float
    target: float

    @property
    def ratio(self) -> float:
        """The ratio of the plain way's time to the quick way's."""
        return self.plain_s / self.quick_s

    @property
    def agree(self) -> bool:
        """Whether both ways give the same result; a difference that is not a number counts as disagreement."""
        return self.apart <= self.tolerance


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure that may not be exceeded.

    Attributes:
        title: The thing that is measured.
        value: The measured figure.
        at_most: The largest figure that is allowed.
        unit: The unit of both, for instance "s" or "GB".
    """

    title: str
    value: float
    at_most: float
    unit: str

    @property
    def kept(self) -> bool:
        """Whether the figure is at most the limit."""
        return self.value <= self.at_most


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one bench.

    Attributes:
        subject: The thing that the bench ran on, in words.
        ways: At least one pair of ways.
        limits: Further targets, in seconds or GB, which depend on the machine too.
    """

    subject: str
    ways: tuple[TwoWays, ...]
    limits: tuple[Limit, ...] = ()


Bench = Callable[[str | None], Measured]
"""The function `bench` that a file in `medtune.trainer.benches` defines; takes the subject, None for its default."""


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Returns the result of `work` and the seconds that it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def peak_memory_gb() -> float:
    """Returns the largest amount of memory that this process has held so far, in GB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, kilobytes elsewhere.
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def refuse_subject(name: str, subject: str | None) -> None:
    """Refuses a subject for a bench that takes none.

    Raises:
        ValueError: A subject was given.
    """
    if subject is not None:
        raise ValueError(f"the bench {name!r} runs on one thing alone; leave {subject!r} out")
