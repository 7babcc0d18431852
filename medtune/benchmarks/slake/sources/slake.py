"""SLAKE's questions in both languages, whose official splits share images with one another."""

from __future__ import annotations

from medtune.benchmarks.slake.release import LANGUAGES, slake_source
from medtune.data.raw.source import Source


def source() -> Source:
    """Returns the source."""
    return slake_source("SLAKE, English and Chinese", LANGUAGES)
