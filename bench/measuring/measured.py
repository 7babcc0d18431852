"""The figures that a bench returns, and the measurement of time and memory."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

GB = 1e9
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TwoWays:
    """Two ways to the same result, with the time that each took and how far their results differ."""

    title: str  # The task that both ways do.
    quick: str  # A description of the quick way.
    plain: str  # A description of the plain way.
    quick_s: float  # The seconds that the quick way took.
    plain_s: float  # The seconds that the plain way took.
    apart: float  # The largest difference between the two results.
    tolerance: float  # The largest difference at which the results still count as the same.
    target: float  # The ratio of the plain way's time to the quick way's time that has to be reached.

    @property
    def ratio(self) -> float:
        """The ratio of the plain way's time to the quick way's time."""
        return self.plain_s / self.quick_s

    @property
    def agree(self) -> bool:
        """Whether both ways give the same result; a difference that is not a number counts as disagreement."""
        return self.apart <= self.tolerance


@dataclass(frozen=True, slots=True)
class Limit:
    """A measured figure and the limit that it has to stay within."""

    title: str  # The thing that is measured.
    value: float  # The measured figure.
    at_most: float  # The largest figure that is allowed.
    unit: str  # The unit of both, for instance "s" or "GB".

    @property
    def kept(self) -> bool:
        """Whether the figure is at most the limit."""
        return self.value <= self.at_most


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one bench."""

    subject: str  # A description of the data or model that the bench ran on.
    ways: tuple[TwoWays, ...]  # The comparisons of two ways, at least one.
    # Figures with a limit in seconds, GB or percent; unlike the comparisons they also depend on the machine.
    limits: tuple[Limit, ...] = ()


Bench = Callable[[str | None], Measured]
"""The type of the function `bench` that every module in `bench` defines.

It takes the name of a model or benchmark to measure, or None for the default of the bench, and returns the figures.
"""


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Returns the result of `work` and the seconds that it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def medians(works: Sequence[Callable[[], object]], *, runs: int) -> list[float]:
    """Returns the median of the seconds that each work takes, measured in turn after one run of the first.

    Other programs slow down what runs beside them for a while, so the works alternate.
    """
    works[0]()
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for work, seconds in zip(works, taken, strict=True):
            seconds.append(timed(work)[1])
    return [statistics.median(seconds) for seconds in taken]


def peak_memory_gb() -> float:
    """Returns the largest amount of memory that this process has used so far, in GB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The system reports bytes on macOS and kilobytes elsewhere.
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def refuse_subject(name: str, subject: str | None) -> None:
    """Checks that no subject was given to a bench that takes none."""
    if subject is not None:
        raise ValueError(f"the bench {name!r} runs on one thing alone; leave {subject!r} out")
