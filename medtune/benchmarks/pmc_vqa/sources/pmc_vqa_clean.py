"""PMC-VQA, version 1 with the 2,000 test questions that its authors checked by hand.

The layout is in medtune/benchmarks/pmc_vqa/release.py.
"""

from __future__ import annotations

from medtune.benchmarks.pmc_vqa.release import V1_CLEAN, source_of
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return source_of(V1_CLEAN)
