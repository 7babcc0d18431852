"""The sizes of benchmarks and how their data are simulated when `python -m bench` measures speed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.measuring.ctlesionvqa_release import ROWS, SCANS, TEST_SCANS, write_raw
from medtune.benchmarks.u2_bench.tasks_and_sets import CASES
from medtune.data.types import MediaKind


@dataclass(frozen=True, slots=True)
class Simulation:
    """A source that simulates data, and the number of questions that the benchmark asks about one media item."""

    source: str  # Name of the source, which needs no raw files.
    kind: MediaKind  # The kind of media that it simulates.
    questions_per_item: int  # The benchmark's mean number of questions about one media item, rounded.


class WriteRaw(Protocol):
    """A function that writes raw files in the layout of a release, with random content."""

    def __call__(self, root: Path, *, rows: int, items: int, test_items: int) -> None:
        """Writes `rows` rows about `items` small media items into `root`; the first `test_items` are for testing."""


@dataclass(frozen=True, slots=True)
class MadeUpRelease:
    """A stand-in for a release, with as many rows as the real one, made-up contents and tiny media."""

    source: str  # Name of the source that reads the layout.
    rows: int  # Number of rows in the release's tables.
    questions_per_row: int  # Number of questions that are made from one row.
    items: int  # Number of media items that the rows are about.
    item_word: str  # The word for the items in the plural, e.g. "images".
    test_items: int  # Number of the items that belong to the test split.
    write: WriteRaw  # Writes the raw files, with any number of rows and items.


@dataclass(frozen=True, slots=True)
class Workload:
    """The facts about a benchmark that the measurements of `python -m bench` need; each of them may be missing."""

    simulation: Simulation | None = None  # How its questions are simulated; None if they are not.
    release: MadeUpRelease | None = None  # The stand-in for its release at full size; None if there is none.
    # The largest number of predictions whose scoring is timed, for metrics that compare long texts; None for no limit.
    max_predictions: int | None = None


WORKLOADS: Mapping[str, Workload] = {
    # 43 questions about each scan, two questions in each row of the table.
    "ctlesionvqa": Workload(
        simulation=Simulation("ct_phantom", "volume", questions_per_item=round(ROWS / SCANS)),
        release=MadeUpRelease(
            "ctlesionvqa",
            rows=ROWS,
            questions_per_row=2,
            items=SCANS,
            item_word="scans",
            test_items=TEST_SCANS,
            write=write_raw,
        ),
    ),
    "fetal_gauge": Workload(simulation=Simulation("fetal_phantom", "image", questions_per_item=2)),
    "u2_bench": Workload(max_predictions=sum(CASES.values())),
}


def workload(benchmark: str) -> Workload:
    """Returns what is known about a benchmark; nothing for one that is not in the table."""
    return WORKLOADS.get(benchmark, Workload())
