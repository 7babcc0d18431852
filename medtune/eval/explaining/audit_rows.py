"""Says which questions a row of audit.json counts, how they are joined, and whether it comes out again."""

from collections.abc import Iterator, Sequence

from medtune.data.catalog import nearest
from medtune.data.types import Question
from medtune.eval.audit.audited_phase import AuditedPhase
from medtune.eval.audit.row import ACCURACY, AuditRow, Gap
from medtune.eval.explaining.numbers import WITHIN, named_ids
from medtune.eval.statistics.patient_swaps import p_equals

AUDIT = "audit"
ALL = "it has no options, so that it cannot be guessed"
PART = "this row is not about it"


def audit_paths(rows: Sequence[AuditRow]) -> list[str]:
    return [f"{AUDIT}.{row.name}" for row in rows]


def find_row(path: str, rows: Sequence[AuditRow]) -> AuditRow:
    found = dict(zip(audit_paths(rows), rows, strict=True))
    if path not in found:
        raise ValueError(
            f"audit.json has no row {path!r}.{nearest(path, found)} `medtune explain RUN --numbers` lists all"
        )
    return found[path]


def row_lines(
    row: AuditRow, again: AuditRow | None, subject: AuditedPhase, asked: Sequence[Question], *, most: int | None
) -> Iterator[str]:
    """Yields the explanation as lines of text.

    Args:
        again: The row, computed from the answers and pictures in the folders; None where that needs the model.
        asked: The questions of the phase, with those that have no options.
        most: Number of ids to name of each kind; None names all.
    """
    reach = "" if row.ci95 is None else f" ({row.ci95.text()})"
    yield f"{AUDIT}.{row.name}: {row.value:.6g}{reach}, the {row.metric} of {row.title}"
    if row.note:
        yield f"made of    {row.note}"
    counts = (again and again.counts) or [question.id for question in subject.questions]
    yield f"counts     {len(counts):,} of {len(asked):,} questions{named_ids(counts, most)}"
    closed = {question.id for question in subject.questions}
    for why, ids in (
        (ALL, [question.id for question in asked if question.id not in closed]),
        (PART, [question.id for question in subject.questions if question.id not in {*counts}]),
    ):
        if ids:
            yield f"leaves out {len(ids):,}: {why}{named_ids(ids, most)}"
    patients = len({question.patient_id for question in subject.questions if question.id in {*counts}})
    yield f"joined     mean over {len(counts):,} questions of {patients:,} patients, who are the clusters"
    if row.gap is not None:
        yield f"beside it  {_gap(row.gap)}"
    if row.flag is not None:
        yield f"flag       {row.flag}"
    if again is None:
        yield "again      not without the model, whose features it reads: `medtune audit RUN` makes it anew"
    elif _alike(row, again):
        yield f"again      {again.value:.6g}, computed from the answers and pictures in the folders"
    else:
        reach = "" if again.ci95 is None else f" ({again.ci95.text()})"
        yield (
            f"again      {again.value:.6g}{reach}, "
            "which is another one: the answers, the data or medtune's version are not those of audit.json"
        )


def _gap(gap: Gap) -> str:
    p = "" if gap.permutation_p is None else f"; {p_equals(gap.permutation_p)} by swaps of the two for whole patients"
    if gap.permutation_p_holm is not None:
        p += f", {p_equals(gap.permutation_p_holm)} after Holm's correction over the audit's checks, which decides"
    return f"the model's {ACCURACY} minus it, paired by question: {gap.value:+.6g} ({gap.ci95.text(signed=True)}){p}"


def _alike(row: AuditRow, again: AuditRow) -> bool:
    pairs = [(row.value, again.value), *zip(row.ci95 or (), again.ci95 or (), strict=False)]
    if row.gap and again.gap:
        pairs += [(row.gap.value, again.gap.value), *zip(row.gap.ci95, again.gap.ci95, strict=True)]
    return row.n == again.n and all(abs(one - other) <= WITHIN for one, other in pairs)
