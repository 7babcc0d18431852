"""The official report: accuracy and rubric overall, by type and by duration, and what the judge found wrong.

Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (evaluate_file).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medtune.benchmarks.rexsonovqa.rubric import (
    FULL_POINTS,
    UNKNOWN_ERROR,
    WRONG_CONCLUSION,
    WRONG_EVIDENCE,
    ScoredItem,
    Tally,
    tally,
    tally_by_duration,
    tally_by_type,
)
from medtune.eval.scoring.tables import Table

_SHARES = {WRONG_CONCLUSION: "wrong_conclusion_only", WRONG_EVIDENCE: "wrong_visual_evidence_only"}
_WRONG_BOTH = "wrong_both"


@dataclass(frozen=True, slots=True)
class OfficialFigures:
    """All figures that the official script prints, without rounding."""

    mcq: Tally  # The right answers among all multiple-choice questions.
    free: Tally  # The points (0 to 2) of all free responses.
    mcq_by_type: Mapping[str, Tally]  # The same as `mcq` for each type of question.
    free_by_type: Mapping[str, Tally]  # The same as `free` for each type of question.
    mcq_by_duration: Mapping[str, Tally]  # The same as `mcq` for each bin of the clip's length.
    free_by_duration: Mapping[str, Tally]  # The same as `free` for each bin of the clip's length.
    partial_errors: Mapping[str, int]  # The number of free responses with 1 point, by type of error.
    # The number of free responses by kind of error. A response with 0 points, or with 1 point but no single error,
    # counts as "wrong_both". A response whose score is not 0, 1 or 2 is not counted.
    errors: Mapping[str, int]

    @property
    def free_share(self) -> float:
        """The points of the free responses as a share of the points that are possible, 0 to 1; 0 without responses."""
        return self.free.mean / FULL_POINTS


def report(items: Iterable[ScoredItem]) -> OfficialFigures:
    """Returns the report of scored items; without items every tally is empty, which the official script prints as 0.

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    items = list(items)
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    partial = Counter(item.error_type or UNKNOWN_ERROR for item in free if item.score == 1)
    wrong = Counter(
        _SHARES.get(item.error_type or "", _WRONG_BOTH) if item.score == 1 else _WRONG_BOTH
        for item in free
        if item.score in (0, 1)
    )
    return OfficialFigures(
        mcq=tally(mcq),
        free=tally(free),
        mcq_by_type=tally_by_type(mcq),
        free_by_type=tally_by_type(free),
        mcq_by_duration=tally_by_duration(mcq),
        free_by_duration=tally_by_duration(free),
        partial_errors=dict(sorted(partial.items())),
        errors={name: wrong[name] for name in (*_SHARES.values(), _WRONG_BOTH)},
    )


def report_tables(found: OfficialFigures) -> list[Table]:
    """Returns the report as tables, rounded as the official script does.

    Shares are in percent with 1 decimal, and mean points have 2 decimals. If there are no items, the value is missing,
    whereas the official script prints 0.
    """
    free = found.free
    overall = (
        ("multiple choice, percent right", found.mcq.n, f"{100 * found.mcq.mean:.1f}" if found.mcq.n else None),
        ("free response, mean of 0 to 2", free.n, f"{free.mean:.2f}" if free.n else None),
        ("free response, percent of points", free.n, f"{100 * found.free_share:.1f}" if free.n else None),
    )
    tables = [Table("Overall", ("", "n", "value"), overall)]
    for title, tallies in (("type", found.mcq_by_type), ("clip duration", found.mcq_by_duration)):
        rows = tuple((name, each.n, 100 * each.mean if each.n else None) for name, each in tallies.items())
        tables.append(Table(f"Multiple choice by {title}, percent right", (title, "n", "value"), rows, digits=1))
    for title, tallies in (("type", found.free_by_type), ("clip duration", found.free_by_duration)):
        rows = tuple((name, each.n, each.mean if each.n else None) for name, each in tallies.items())
        tables.append(Table(f"Free response by {title}, mean of 0 to 2", (title, "n", "value"), rows, digits=2))
    partial = tuple(found.partial_errors.items())
    tables.append(Table("Free responses with 1 point, by error", ("error", "n"), partial))
    errors = tuple((name, count, 100 * count / free.n if free.n else None) for name, count in found.errors.items())
    tables.append(Table("Errors, percent of all free responses", ("error", "n", "value"), errors, digits=1))
    return tables
