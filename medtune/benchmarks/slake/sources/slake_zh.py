"""SLAKE's Chinese questions, whose official split shares no image."""

from __future__ import annotations

from medtune.benchmarks.slake.release import slake_source
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return slake_source("SLAKE, Chinese", ("zh",))
