"""The table of the questions that each primary number counts, and of those that it leaves out."""

from collections.abc import Iterator

from medtune.data.readable import spoken
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import Cell, ReportTable, count, phase_title, word
from medtune.eval.results.phase_schema import Measured, Phase

COLUMNS = (
    "evaluation", "metric", "answers read by", "questions asked", "counts", "waits for a judge", "is not about",
    "unreadable, counts as wrong",
)  # fmt: skip
PASSES = "passes"
"""The column that is there where a question was asked more than once."""


def counts_table(run: RunData) -> ReportTable:
    """Returns a row for the primary number of each phase, and one for each number of the questions outside of it."""
    is_repeated = any(phase.overall.repeats > 1 for phase in run.phases.values())
    rows = [row for name, phase in run.phases.items() for row in _rows(run, name, phase)]
    rows = rows if is_repeated else [row[:-1] for row in rows]
    notes = [f"How they are joined: intervals by {run.results.interval_method}."] if run.results.interval_method else []
    notes.append("`medtune explain RUN NUMBER` names the questions of each number in results.json, with the reasons.")
    columns = (*COLUMNS, PASSES) if is_repeated else COLUMNS
    return ReportTable("Which questions the numbers count", columns, tuple(rows), tuple(notes))


def _rows(run: RunData, name: str, phase: Phase) -> Iterator[tuple[Cell, ...]]:
    yield _row(run.primary, name, phase, phase.overall)
    for metric, score in phase.outside.items():
        yield _row(metric, name, phase, score)


def _row(metric: str, name: str, phase: Phase, score: Measured) -> tuple[Cell, ...]:
    left = None if phase.asked is None else phase.asked - score.n - score.unscored
    return (
        word(phase_title(name)),
        word(spoken(metric)),
        word(spoken(phase.parser)),
        count(phase.asked),
        count(score.n),
        count(score.unscored),
        count(left),
        count(score.unparsable),
        count(score.repeats),
    )
