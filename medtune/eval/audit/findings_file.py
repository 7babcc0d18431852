"""Defines the type of the JSON file that `medtune audit BENCHMARK --out FILE` writes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pydantic import with_config

from medtune.eval.audit.findings import Finding
from medtune.eval.data_label import DataLabel
from medtune.eval.results.phase_schema import Count
from medtune.eval.results.schema import DOCUMENT, Labelled
from medtune.eval.statistics.intervals import METHOD


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class FindingsFile(Labelled):
    """The audit of a benchmark without a model: cues to the answers, duplicates and leaks between splits.

    Attributes:
        version: Version of the file's format.
        benchmark: Name of the benchmark in the catalog.
        split: The split whose questions were searched for cues.
        data_hash: SHA-256 of the prepared folder, in hex digits.
        findings: The ways in which the benchmark could be easier than it looks, flagged or not.
        interval_method: Name of the method of the 95 % intervals.
    """

    version: Count = 1
    benchmark: str
    split: str
    data_hash: str
    findings: tuple[Finding, ...]
    interval_method: str = METHOD


def findings_file(
    findings: Sequence[Finding], label: DataLabel, *, benchmark: str, split: str, data_hash: str
) -> FindingsFile:
    return FindingsFile(
        **asdict(label), benchmark=benchmark, split=split, data_hash=data_hash, findings=tuple(findings)
    )
