"""Describes the size of a benchmark and how its data are simulated when `medtune bench` measures speed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from medtune.data.types import MediaKind


@dataclass(frozen=True, slots=True)
class Simulation:
    """A source that simulates data, and the number of questions that the benchmark asks about one media item.

    Attributes:
        source: Name of the source, which needs no raw files.
        kind: The kind of media that it simulates.
        questions_per_item: The benchmark's mean number of questions about one media item, rounded.
    """

    source: str
    kind: MediaKind
    questions_per_item: int


class WriteRaw(Protocol):
    """A function that writes raw files in the layout of a release, with random content."""

    def __call__(self, root: Path, *, rows: int, items: int, test_items: int) -> None:
        """Writes `rows` rows about `items` small media items into `root`; the first `test_items` are for testing."""


@dataclass(frozen=True, slots=True)
class MadeUpRelease:
    """A stand-in for a release, with as many rows as the real one, made-up contents and tiny media.

    Attributes:
        source: Name of the source that reads the layout.
        rows: Number of rows in the release's tables.
        questions_per_row: Number of questions that are made from one row.
        items: Number of media items that the rows are about.
        item_word: The word for the items in the plural, e.g. "images".
        test_items: Number of the items that belong to the test split.
        write: Writes the raw files, with any number of rows and items.
    """

    source: str
    rows: int
    questions_per_row: int
    items: int
    item_word: str
    test_items: int
    write: WriteRaw


@dataclass(frozen=True, slots=True)
class Workload:
    """The facts about a benchmark that the measurements of `medtune bench` need; each of them may be missing.

    Attributes:
        simulation: How its questions are simulated; None if they are not.
        release: The stand-in for its release at full size; None if there is none.
        max_predictions: The largest number of predictions whose scoring is timed, for metrics that compare long texts;
            None for no limit.
    """

    simulation: Simulation | None = None
    release: MadeUpRelease | None = None
    max_predictions: int | None = None
