"""PMC-VQA, version 1 with its whole test file; medtune/benchmarks/pmc_vqa/release.py has the layout."""

from __future__ import annotations

from medtune.benchmarks.pmc_vqa.release import V1, source_of
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return source_of(V1)
