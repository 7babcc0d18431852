"""The parts of MMMU's medical subjects; medtune/benchmarks/mmmu_med/release.py has the layout."""

from medtune.benchmarks.mmmu_med.release import source_of
from medtune.data.raw.source import Source


def mmmu_med() -> Source:
    """MMMU's medical subjects, the validation part; see medtune/benchmarks/mmmu_med/release.py for the layout."""
    return source_of("validation")


def mmmu_med_test() -> Source:
    """MMMU's medical subjects, the test part; see medtune/benchmarks/mmmu_med/release.py for the layout."""
    return source_of("test")
