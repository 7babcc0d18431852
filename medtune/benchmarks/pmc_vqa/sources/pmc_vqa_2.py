"""PMC-VQA, version 2, whose figures are no compound figures; medtune/benchmarks/pmc_vqa/release.py has the layout."""

from __future__ import annotations

from medtune.benchmarks.pmc_vqa.release import V2, source_of
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return source_of(V2)
