"""Shows an audit, of a run or of a benchmark without a model, as a table of plain text with the flags below it."""

from collections.abc import Mapping, Sequence

from medtune.eval.audit.findings import Finding
from medtune.eval.audit.row import SUBTYPE, Audit, AuditRow
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.eval.statistics.intervals import METHOD

_SHOWN = 3


def audit_text(audit: Audit, *, title: str) -> str:
    """Returns the audit of a run as plain text: its rows, their flags, and the most frequent answers."""
    gaps = [f"{row.gap.value:+.3f} ({row.gap.ci95.text(signed=True)})" if row.gap else None for row in audit.rows]
    text = _rows_text(audit.rows, {"model minus row": gaps}, title=title, kind="row")
    if not audit.collapse:
        return text
    answers = tuple(
        (kind, found.answer, found.share, found.truth_share, found.n, "FLAG" if found.flag else "")
        for kind, found in audit.collapse.items()
    )
    columns = (SUBTYPE, "answer", "share", "true share", "n", "")
    return f"{text}\n\n{table_text(Table('Most frequent answer per subtype', columns, answers))}"


def findings_text(findings: Sequence[Finding], *, title: str) -> str:
    """Returns the findings as plain text, with each flag and its first items below the table."""
    chances, items = [each.chance for each in findings], [len(each.items) for each in findings]
    return _rows_text(findings, {"guessing": chances, "items": items}, title=title, kind="finding")


def _rows_text(
    rows: Sequence[AuditRow | Finding], details: Mapping[str, Sequence[Cell]], *, title: str, kind: str
) -> str:
    columns: dict[str, Sequence[Cell]] = {
        kind: [row.title for row in rows],
        "value": [int(row.value) if row.metric == "questions" else row.value for row in rows],
        "n": [row.n for row in rows],
        "95 % interval": [row.ci95 and row.ci95.text() for row in rows],
        **details,
        "": ["FLAG" if row.flag else "" for row in rows],
    }
    flags = [f"FLAG {row.title}: {row.flag}{_first_items(row)}" for row in rows if row.flag]
    cells = tuple(zip(*columns.values(), strict=True))
    return table_text(Table(title, tuple(columns), cells, (f"95 % intervals: {METHOD}.", *flags)))


def _first_items(row: AuditRow | Finding) -> str:
    items = row.items if isinstance(row, Finding) else ()
    return f" (items {', '.join(items[:_SHOWN])}{', ...' if len(items) > _SHOWN else ''})" if items else ""
