"""Defines published numbers of other models, which are shown beside our own, and the paper that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.types import FOLD

MARKS = (TRAIN_TWIN, FOLD)


@dataclass(frozen=True, slots=True)
class PublishedNumber:
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


def no_references() -> Sequence[PublishedNumber]:
    """Returns no numbers, for a benchmark whose primary metric has no published ones."""
    return ()
