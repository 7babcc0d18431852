"""The official report: accuracy and rubric overall, by type and by duration, and what the judge found wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medtune.eval.benchmarks.rexsonovqa.items import (
    UNKNOWN_ERROR,
    WRONG_CONCLUSION,
    WRONG_EVIDENCE,
    ScoredItem,
    Tally,
    tally,
    tally_by_duration,
    tally_by_type,
)

FREE_MAXIMUM = 2
_SHARES = {WRONG_CONCLUSION: "wrong_conclusion_only", WRONG_EVIDENCE: "wrong_visual_evidence_only"}
_WRONG_BOTH = "wrong_both"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the official script prints, unrounded.

    Attributes:
        mcq: Right answers of all multiple-choice questions.
        free: Points (0 to 2) of all free responses.
        partial_errors: Error type -> free responses with 1 point.
        errors: Kind of error -> free responses. Every 0 is "wrong_both", whatever its type; so is a 1 without a
            single error; a score between the points is in none.
    """

    mcq: Tally
    free: Tally
    mcq_by_type: Mapping[str, Tally]
    free_by_type: Mapping[str, Tally]
    mcq_by_duration: Mapping[str, Tally]
    free_by_duration: Mapping[str, Tally]
    partial_errors: Mapping[str, int]
    errors: Mapping[str, int]

    @property
    def free_share(self) -> float:
        """Points of the free responses / points to be had; 0 where there are none."""
        return self.free.mean / FREE_MAXIMUM


def report(items: Iterable[ScoredItem]) -> Report:
    """Returns the report of scored items; of none, every tally is empty and prints as 0.

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    items = list(items)
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    partial = Counter(item.error_type or UNKNOWN_ERROR for item in free if item.score == 1)
    wrong = Counter(
        _SHARES.get(item.error_type or "", _WRONG_BOTH) if item.score == 1 else _WRONG_BOTH
        for item in free
        if item.score in (0, 1)
    )
    return Report(
        mcq=tally(mcq),
        free=tally(free),
        mcq_by_type=tally_by_type(mcq),
        free_by_type=tally_by_type(free),
        mcq_by_duration=tally_by_duration(mcq),
        free_by_duration=tally_by_duration(free),
        partial_errors=dict(sorted(partial.items())),
        errors={name: wrong[name] for name in (*_SHARES.values(), _WRONG_BOTH)},
    )


def report_text(found: Report) -> str:
    """Returns the report's tables as plain text, to the places that the official script prints.

    Percentages have 1 place, means of points 2.
    """
    free = found.free
    overall = [
        ("multiple choice", f"{found.mcq.total:g}/{found.mcq.n}", _percent(found.mcq.mean)),
        ("free response, of 2", str(free.n), f"{free.mean:.2f}"),
        ("free response, of the points", str(free.n), _percent(found.free_share)),
    ]
    tables = [_table("Overall", overall)]
    for title, tallies, print_mean in (
        ("Multiple choice by type", found.mcq_by_type, _percent),
        ("Free response by type", found.free_by_type, _points),
        ("Multiple choice by clip duration", found.mcq_by_duration, _percent),
        ("Free response by clip duration", found.free_by_duration, _points),
    ):
        if tallies:
            tables.append(_table(title, [(name, str(each.n), print_mean(each.mean)) for name, each in tallies.items()]))
    if free.n:
        partial = [(name, str(count), "") for name, count in found.partial_errors.items()]
        errors = [(name, str(count), _percent(count / free.n)) for name, count in found.errors.items()]
        tables += [_table("Free responses with 1 point, by error", partial), _table("Errors of all free", errors)]
    return "\n\n".join(tables)


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"


def _points(mean: float) -> str:
    return f"{mean:.2f}"


def _table(title: str, rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"  {name:<40}{count:>9}{value:>9}".rstrip() for name, count, value in rows]
    return "\n".join([title, *lines])
