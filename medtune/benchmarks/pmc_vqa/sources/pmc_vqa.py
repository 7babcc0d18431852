"""PMC-VQA's versions; medtune/benchmarks/pmc_vqa/release.py has the layout."""

from medtune.benchmarks.pmc_vqa.release import V1, V1_CLEAN, V2, source_of
from medtune.data.raw.source import Source


def pmc_vqa() -> Source:
    """PMC-VQA, version 1 with its whole test file; medtune/benchmarks/pmc_vqa/release.py has the layout."""
    return source_of(V1)


def pmc_vqa_2() -> Source:
    """PMC-VQA, version 2, without compound figures; medtune/benchmarks/pmc_vqa/release.py has the layout."""
    return source_of(V2)


def pmc_vqa_clean() -> Source:
    """PMC-VQA, version 1 with the 2,000 test questions that its authors checked by hand."""
    return source_of(V1_CLEAN)
