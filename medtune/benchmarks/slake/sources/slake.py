"""SLAKE's questions in one language or in both; medtune/benchmarks/slake/release.py has the layout."""

from medtune.benchmarks.slake.release import LANGUAGES, slake_source
from medtune.data.raw.source import Source


def slake() -> Source:
    """SLAKE's questions in both languages, whose official splits share images with one another."""
    return slake_source("SLAKE, English and Chinese", LANGUAGES)


def slake_en() -> Source:
    """SLAKE's English questions, whose official split shares no image."""
    return slake_source("SLAKE, English", ("en",))


def slake_zh() -> Source:
    """SLAKE's Chinese questions, whose official split shares no image."""
    return slake_source("SLAKE, Chinese", ("zh",))
