"""MMMU's medical subjects, the validation part; see medtune/benchmarks/mmmu_med/release.py for the layout."""

from __future__ import annotations

from medtune.benchmarks.mmmu_med.release import source_of
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return source_of("validation")
