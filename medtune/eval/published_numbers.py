"""Defines published numbers of other models, which are shown beside our own, and the paper that they come from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """One published number, in the unit of the benchmark's primary metric."""

    model: str
    value: float
    facet: str | None = None  # The facet of a partial score, e.g. "task"; None for the overall score.
    level: str | None = None  # The level of that facet; None for the overall score.


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper of a benchmark."""

    title: str
    citation: str
    url: str
    printed: str | None  # The source of our copy of the paper's numbers; None if we have none.


PaperOf = Callable[[str], Paper | None]
"""Returns the paper of a benchmark by its name; None if there is no such benchmark."""


def no_references() -> Sequence[Reference]:
    """Returns no numbers, for a benchmark whose primary metric has no published ones."""
    return ()
