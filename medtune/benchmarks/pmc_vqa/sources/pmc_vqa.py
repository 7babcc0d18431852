"""PMC-VQA, version 1 with the whole test file, test.csv; see medtune/benchmarks/pmc_vqa/release.py for the layout."""

from __future__ import annotations

from medtune.benchmarks.pmc_vqa.example import writer_of_example
from medtune.benchmarks.pmc_vqa.release import V1, source_of
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return source_of(V1, write_example=writer_of_example(V1))
