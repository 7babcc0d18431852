"""A paper's number to be drawn beside ours: of another model, on other data."""

from __future__ import annotations

from collections.abc import Sequence
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


def no_references() -> Sequence[Reference]:
    """Returns none: nothing was published for the benchmark's primary metric."""
    return ()
