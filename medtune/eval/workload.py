"""The size of a benchmark, and what stands in for its data where the speed of medtune is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from medtune.data.types import MediaKind


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated source, and how many questions the benchmark asks about one media item.

    Attributes:
        source: Name of the source; it needs no folder.
        kind: The kind of media that it simulates.
        questions_per_item: Questions about one media item in the benchmark, the average rounded to a whole number.
    """

    source: str
    kind: MediaKind
    questions_per_item: int


class WriteRaw(Protocol):
    """Writes raw files in a release's own layout, filled with random content."""

    def __call__(self, root: Path, *, rows: int, items: int, test_items: int) -> None:
        """Writes `rows` rows about `items` small media items into `root`; the first `test_items` are the test's."""


@dataclass(frozen=True, slots=True)
class MadeUpRelease:
    """A release at its full size with made-up rows and tiny media.

    Attributes:
        source: Name of the source that reads the layout.
        rows: Number of rows in the release's tables.
        questions_per_row: How many questions one row becomes.
        items: Number of media items that the rows are about.
        item_word: What the items are called, in the plural.
        test_items: How many of the items belong to the test split.
        write: Writes the raw files, in any size.
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
    """Everything that the benches of medtune ask of a benchmark; each part may be missing.

    Attributes:
        simulation: How its questions are simulated; None where they are not.
        release: How its release is made up at full size; None where it is not.
        max_predictions: The largest number of predictions to time the scoring of, for metrics that compare long texts;
            None where a bench may choose any number.
    """

    simulation: Simulation | None = None
    release: MadeUpRelease | None = None
    max_predictions: int | None = None
