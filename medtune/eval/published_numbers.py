"""A paper's number to be drawn beside ours: of another model, on other data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """One printed number in the units of the benchmark's primary metric.

    Attributes:
        facet: What it is broken down by, e.g. "task"; None for the overall score.
        level: Which level of the facet; None for the overall score.
    """

    model: str
    value: float
    facet: str | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper of a benchmark.

    Attributes:
        title: The benchmark's title.
        printed: Where the paper's numbers come from; None where none are known.
    """

    title: str
    citation: str
    url: str
    printed: str | None


PaperOf = Callable[[str], Paper | None]
"""Benchmark name -> its paper; None where there is no such benchmark."""


def no_references() -> Sequence[Reference]:
    """Returns none: nothing was published for the benchmark's primary metric."""
    return ()
