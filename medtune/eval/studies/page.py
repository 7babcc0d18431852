"""Writes a study as a page, and as Markdown, LaTeX, CSV and JSON: the paper's tables with ours in them."""

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from medtune.data.files import replace_file
from medtune.data.types import Interval
from medtune.eval.report.html import render
from medtune.eval.report.table import escaped, paper_table, plain, signed, span, table_lines
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics.patient_swaps import p_text
from medtune.eval.studies.cells import StudyAnswers, StudyCell
from medtune.eval.studies.figures import OURS, PRINTED, Figure, figures_of
from medtune.eval.studies.published import PublishedTable

WIDE = 9
"""The number of columns above which a table with fewer lines is turned on its side (our own choice)."""
ALPHA = 0.05
DIFFERENCE, RANK = "difference", "rank"
_TEST_NOTE = (
    "Difference: ours, rounded as the paper prints, minus the published value. Its interval holds the uncertainty of "
    "both: of ours with patients as clusters, of theirs from the number of questions. * marks p < 0.05 after Holm's "
    "correction over all cells of the study."
)

COLUMNS = (
    "table", "row", "published row", "column", "published", "ours", "95 % interval of ours", "questions", "runs",
    "difference", "95 % interval of the difference", "p", "p (Holm)", "why not",
)  # fmt: skip
_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\N{MINUS SIGN}": "$-$",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run, or one file of predictions, behind a row of a study."""

    row: str
    benchmark: str
    seed: int | None
    what: str  # The recipe and its model, or what gave the answers.
    folder: str
    data_hash: str
    metric: str
    zero_shot: float | None = None
    final: float | None = None
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class StudyReport:
    """What a study found.

    Attributes:
        name: The name of the study.
        title: What it fills, in words.
        scale: Its scale; "full" on the released data.
        banners: (name, meaning) of each reason why the numbers are not the benchmark's own.
        left_out: Rows of the paper that nothing fills, with the reason.
        missing: Rows of the study without answers yet.
        fetch: What a reader has to fetch.
        billions: The parameters in billions of the rows that are one model at several sizes.
    """

    name: str
    title: str
    scale: str
    benchmarks: tuple[str, ...]
    source: str
    banners: tuple[tuple[str, str], ...]
    tables: tuple[PublishedTable, ...]
    rows: tuple[StudyAnswers, ...]
    cells: tuple[StudyCell, ...]
    runs: tuple[StudyRun, ...]
    left_out: Mapping[str, str]
    missing: tuple[str, ...]
    fetch: str
    billions: Mapping[str, float] = field(default_factory=dict)

    def of_table(self, table: PublishedTable) -> dict[tuple[str, str], StudyCell]:
        return {(cell.row, cell.column): cell for cell in self.cells if cell.table == table.name}


def write_study(folder: Path, report: StudyReport) -> list[Path]:
    """Writes study.html, study.md, study.tex, study.csv and study.json and returns their paths."""
    paths = [folder / f"study.{ending}" for ending in ("html", "md", "tex", "csv", "json")]
    for path, text in zip(paths, (_html(report), _markdown(report), _latex(report), _csv(report)), strict=False):
        replace_file(path, [text.encode()])
    write_document(paths[-1], _document(report))
    return paths


def _document(report: StudyReport) -> dict[str, object]:
    """Returns the content of study.json."""
    return {
        "version": 1,
        "study": report.name,
        "title": report.title,
        "scale": report.scale,
        "benchmarks": report.benchmarks,
        "source": report.source,
        "banners": report.banners,
        "cells": [asdict(cell) for cell in report.cells],
        "departures": {_of(report, row): [*([row.apart] if row.apart else []), *row.departures] for row in report.rows},
        "runs": [asdict(run) for run in report.runs],
        "left_out": report.left_out,
        "missing": report.missing,
    }


def paper_shaped(report: StudyReport, table: PublishedTable) -> Table:
    """Returns the paper's table with our lines below the published ones; one that is wider than long is turned."""
    lines = _lines(report, table)
    names = [column.name for column in table.columns]
    notes = (*table.notes, _TEST_NOTE)
    title = f"{table.title} ({table.source})"
    if len(names) <= max(WIDE, len(lines)):
        rows = [(line.label, line.kind, *(line.texts.get(name) for name in names)) for line in lines]
        return Table(title, ("row", "", *names), tuple(rows), notes)
    columns = [f"{line.label}, {line.kind}" for line in lines]
    across = [(name, *(line.texts.get(name) for line in lines)) for name in names]
    return Table(title, ("", *columns), tuple(across), notes)


class TableLine(NamedTuple):
    label: str
    kind: str  # Published, ours, the difference or the rank.
    texts: Mapping[str, Cell]  # By column; one that is not there has no text.


def _lines(report: StudyReport, table: PublishedTable) -> list[TableLine]:
    """Returns the published rows that nothing of ours is compared with, then for each row of ours what it has."""
    cells = report.of_table(table)
    taken = {row.published for row in report.rows}
    found = [_printed_line(table, model, model) for model in table.printed if model not in taken]
    for name, published in dict.fromkeys((row.name, row.published) for row in report.rows):
        if published in table.printed:
            label = name if name == published else f"{name} / {published}"
            found.append(_printed_line(table, label, str(published)))
        mine = {column: cell for (row, column), cell in cells.items() if row == name}
        found.append(TableLine(name, OURS, {column: _ours_text(table, cell) for column, cell in mine.items()}))
        if any(cell.difference is not None for cell in mine.values()):
            texts = {column: _difference_text(table, cell) for column, cell in mine.items()}
            found.append(TableLine(name, DIFFERENCE, texts))
        if ranks := {column: _rank_text(table, cell) for column, cell in mine.items() if column in table.ranked_by}:
            found += [TableLine(name, RANK, ranks)] if any(ranks.values()) else []
    return found


def _rank_text(table: PublishedTable, cell: StudyCell) -> Cell:
    return None if cell.rank is None else f"{cell.rank} of {len(table.others(cell.column)) + 1}"


def _printed_line(table: PublishedTable, label: str, model: str) -> TableLine:
    printed = table.printed[model]
    return TableLine(
        label, PRINTED, {name: plain(value, table.column(name).printed_digits) for name, value in printed.items()}
    )


def _ours_text(table: PublishedTable, cell: StudyCell) -> Cell:
    """Returns ours with its interval, with one decimal more than is printed; counts have none."""
    if cell.ours is None:
        return None
    printed = table.column(cell.column).printed_digits
    digits = printed + 1 if printed else 0
    value = plain(cell.ours, digits)
    return f"{value} ({span(cell.ci95, digits)})" if cell.ci95 else value


def _difference_text(table: PublishedTable, cell: StudyCell) -> Cell:
    if cell.difference is None:
        return None
    mark = "*" if cell.p_holm is not None and cell.p_holm < ALPHA else ""
    return f"{signed(cell.difference, table.column(cell.column).printed_digits)}{mark}"


def cell_table(report: StudyReport) -> Table:
    """Returns every cell of the study in a row of its own."""
    rows = [
        (
            cell.table, cell.row, cell.published_row, cell.column, cell.printed, cell.ours, _interval(cell.ci95),
            cell.n, cell.seeds, cell.difference, _interval(cell.difference_ci95, sign=True),
            None if cell.p is None else p_text(cell.p), None if cell.p_holm is None else p_text(cell.p_holm),
            cell.why or None,
        )
        for cell in report.cells
    ]  # fmt: skip
    return Table("Cell by cell", COLUMNS, tuple(rows))


def _interval(interval: Interval | None, *, sign: bool = False) -> str | None:
    return span(interval, sign=sign) if interval else None


def run_table(report: StudyReport) -> Table:
    """Returns a row for each run behind the study."""
    columns = ("row", "benchmark", "seed", "answers by", "folder", "data", "metric", "zero-shot", "final", "gain")
    rows = [
        (
            run.row,
            run.benchmark,
            run.seed,
            run.what,
            run.folder,
            run.data_hash[:12],
            run.metric,
            run.zero_shot,
            run.final,
            run.gain,
        )
        for run in report.runs
    ]
    return Table("Runs", columns, tuple(rows))


def _of(report: StudyReport, row: StudyAnswers) -> str:
    """Returns the name of a row, with the benchmark that it was asked where the study has several."""
    return f"{row.name}, {row.benchmark}" if len({each.benchmark for each in report.rows}) > 1 else row.name


def departure_table(report: StudyReport) -> Table:
    """Returns for each row what differs from the paper, in words."""
    rows = [
        (
            _of(report, row),
            row.published,
            "; ".join([*([row.apart] if row.apart else []), *row.departures]) or "none is known",
        )
        for row in report.rows
    ]
    return Table("What differs from the paper", ("row", "compared with", "departures"), tuple(rows))


def left_out_table(report: StudyReport) -> Table:
    """Returns the rows of the paper that nothing fills, and those of the study without answers, with the reason."""
    rows = [*report.left_out.items(), *((name, "not run yet") for name in report.missing)]
    return Table("Rows without ours", ("row", "reason"), tuple(rows))


def figures(report: StudyReport) -> list[Figure]:
    of_tables = (figures_of(table, report.rows, report.of_table(table), report.billions) for table in report.tables)
    return [each for figures in of_tables for each in figures]


def _html(report: StudyReport) -> str:
    shaped = [paper_table(paper_shaped(report, table)) for table in report.tables]
    more = [departure_table(report), run_table(report), left_out_table(report), cell_table(report)]
    return render(
        "study.html.j2",
        report=report,
        shaped=shaped,
        figures=figures(report),
        more=[paper_table(table) for table in more if table.rows],
        sections=[("tables", "The paper's tables"), ("figure", "The figure"), ("more", "Departures and runs")],
    )


def _markdown(report: StudyReport) -> str:
    lines = [f"# {escaped(report.title)}", "", f"Study {escaped(report.name)}, scale {report.scale}.", ""]
    lines += [line for name, meaning in report.banners for line in (f"> **{escaped(name)}.** {escaped(meaning)}", "")]
    shaped = [paper_shaped(report, table) for table in report.tables]
    for table in (*shaped, departure_table(report), run_table(report), left_out_table(report)):
        lines += table_lines(paper_table(table))
    return "\n".join(lines) + "\n"


def _csv(report: StudyReport) -> str:
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow([*COLUMNS, "scale", "data"])
    provenance = "; ".join(name for name, _ in report.banners)
    table = cell_table(report)
    writer.writerows([*row, report.scale, provenance] for row in table.rows)
    return held.getvalue()


def _latex(report: StudyReport) -> str:
    """Returns the paper's tables as LaTeX, for booktabs."""
    parts = [f"% {report.title} (medtune study {report.name}, scale {report.scale})".replace("\n", " ")]
    parts += [f"% {name}: {meaning}".replace("\n", " ") for name, meaning in report.banners]
    for table in report.tables:
        shaped = paper_shaped(report, table)
        caption = f"{shaped.title}{''.join(f'. {name}' for name, _ in report.banners)}"
        rows = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in shaped.rows]
        parts += [
            r"\begin{table}", r"\centering", rf"\caption{{{_tex(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(shaped.columns) - 1)}}}", r"\toprule",
            " & ".join(map(_tex, shaped.columns)) + r" \\", r"\midrule", *rows, r"\bottomrule", r"\end{tabular}",
            r"\end{table}", "",
        ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _tex(cell: Cell) -> str:
    if cell is None:
        return "--"
    text = f"{cell:.3f}" if isinstance(cell, float) else str(cell)
    return "".join(_TEX.get(letter, letter) for letter in text)


def study_tables(report: StudyReport) -> Mapping[str, Table]:
    """Returns the tables of a study by name, as they are also sent to W&B."""
    shaped = {table.name: paper_shaped(report, table) for table in report.tables}
    return {**shaped, "cells": cell_table(report), "runs": run_table(report), "departures": departure_table(report)}
