"""The audit as a table: audit.json where there is one, else what results.json knows about answers without the image."""

from __future__ import annotations

from dataclasses import dataclass

from medtune.eval.report.checked_json import Node
from medtune.eval.report.run_data import Level, MetricScore, RunData, Stage
from medtune.eval.report.table import Cell, ReportTable, change, count, interval, number, spoken, stage_title, word

TITLES = {
    "random": "Guessing among the options",
    "majority": "Always the task's most frequent train answer",
    "constant_letter": "Always the same letter, the best one",
    "question_prior": "The most frequent train answer to the same question",
    "text_only": "The same model without the image",
    "other_image": "The same model with another patient's image",
}
_COLUMNS = ("check", "score", "n", "95 % interval", "model minus check", "95 % interval of the difference", "finding")
_NOT_BEATEN = "the model is not better than this"


@dataclass(frozen=True, slots=True)
class Blind:
    """The primary metric of something that does not see the image."""

    name: str
    title: str
    value: float


def blind_scores(level: Level) -> list[Blind]:
    """Returns the baselines that apply."""
    return [
        Blind(name, TITLES.get(name, spoken(name)), value)
        for name, value in level.baselines.items()
        if value is not None
    ]


def audit_table(run: RunData) -> ReportTable:
    """Returns the audit of the last stage.

    Raises:
        ValueError: audit.json is broken.
    """
    if run.audit is not None:
        rows = [_audited(row) for row in run.audit["rows"].items()]
        note = "Each check answers the same questions. A small difference means that the score does not need the image."
        return ReportTable("Audit: what else reaches this score", ("stage", *_COLUMNS), tuple(rows), (note,))
    stage = run.last
    rows = [_blind_row(blind, stage, run) for blind in blind_scores(stage.overall)]
    rows += _other_readings(stage, run)
    if stage.overall.n:
        share = stage.overall.unparsable / stage.overall.n
        rows.append(
            (word("Answers that could not be read"), number(share), count(stage.overall.n), *_gaps(3), word(""))
        )
    return ReportTable(
        f"Audit, {stage_title(next(reversed(run.stages)))}: what else reaches this score",
        _COLUMNS,
        tuple(rows),
        ("From the baselines in results.json; `medtune audit RUN` adds more checks and paired intervals.",),
    )


def collapse_table(run: RunData) -> ReportTable | None:
    """Returns the share of the most frequent answer, where audit.json says it per level of a facet; else None.

    Raises:
        ValueError: audit.json is broken.
    """
    if run.audit is None or not isinstance(run.audit["collapse"].value, dict):
        return None
    rows = []
    for name, node in run.audit["collapse"].fields():
        if isinstance(node.value, dict):
            rows.append([(spoken(name), field, value) for field, value in node.fields() if _is_plain(value)])
    columns = list(dict.fromkeys(field for row in rows for _, field, _ in row))
    if not columns:
        return None
    by_row = [(row[0][0], {field: value for _, field, value in row}) for row in rows if row]
    return ReportTable(
        "Collapse: is one answer given to everything?",
        ("group", *map(spoken, columns)),
        tuple(
            (word(name), *(_plain_cell(found[column]) if column in found else word("") for column in columns))
            for name, found in by_row
        ),
    )


def _audited(row: Node) -> tuple[Cell, ...]:
    gap, flag, note = row["gap"], row["flag"].value, row["note"].text_or("")
    has_gap = gap.value is not None
    finding = f"{row['flag'].text()}. {note}".strip() if flag is not None else note
    return (
        word(stage_title(row["stage"].text_or(""))),
        word(row["title"].text()),
        number(row["value"].maybe_number()),
        count(None if row["n"].value is None else row["n"].count()),
        interval(row["ci95"].maybe_pair()),
        change(gap["value"].maybe_number() if has_gap else None),
        interval(gap["ci95"].maybe_pair() if has_gap else None, sign=True),
        word(finding, "flag" if flag is not None else ""),
    )


def _blind_row(blind: Blind, stage: Stage, run: RunData) -> tuple[Cell, ...]:
    seen = [
        score
        for score in stage.metrics
        if (score.condition, score.parser, score.metric) == (blind.name, stage.parser, run.primary)
    ]
    n, reach = (seen[0].n, seen[0].ci95) if seen else (stage.overall.n, None)
    return (word(blind.title), number(blind.value), count(n), interval(reach), *_against(blind.value, stage, run))


def _other_readings(stage: Stage, run: RunData) -> list[tuple[Cell, ...]]:
    """The same replies, read in other ways."""
    return [
        (
            word(f"Answers read by {spoken(score.parser)}"),
            number(score.value),
            count(score.n),
            interval(score.ci95),
            *_difference(score, stage),
            word(""),
        )
        for score in stage.metrics
        if score.condition == "image" and score.metric == run.primary and score.parser != stage.parser
    ]


def _difference(score: MetricScore, stage: Stage) -> tuple[Cell, Cell]:
    both = score.value is not None and stage.overall.value is not None
    return change(stage.overall.value - score.value if both else None), interval(None)  # type: ignore[operator]


def _against(value: float, stage: Stage, run: RunData) -> tuple[Cell, ...]:
    if stage.overall.value is None:
        return (*_gaps(2), word(""))
    gap = stage.overall.value - value
    beaten = gap > 0 if run.higher_is_better else gap < 0
    return change(gap), interval(None), word("") if beaten else word(_NOT_BEATEN, "flag")


def _gaps(how_many: int) -> tuple[Cell, ...]:
    return (number(None),) * how_many


def _is_plain(node: Node) -> bool:
    return node.value is None or isinstance(node.value, str | int | float)


def _plain_cell(node: Node) -> Cell:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return word("yes" if value is True else "no" if value is False else str(value or ""))
    return count(value) if isinstance(value, int) else number(value)
