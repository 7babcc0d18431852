"""Writes a report as Markdown, with the words and tables of the HTML page."""

import re
from collections.abc import Iterator

from medtune.eval.report.answer_classes import matrix_table
from medtune.eval.report.report import Report
from medtune.eval.report.table import banner_lines, escaped, markdown_row, table_lines

_MATRICES = (
    'Rows are the true answers, columns the answers of the model; "unread" counts questions without a readable answer.'
)


def run_markdown(report: Report) -> str:
    """Returns the report of a run as Markdown, in which texts from data and models are escaped."""
    return "\n".join(_run_lines(report)) + "\n"


def _run_lines(report: Report) -> Iterator[str]:
    run, top, made = report.run, report.headline, report.reproduction
    yield from (f"# {escaped(report.source.title)}: {escaped(run.results.model)}", "")
    yield from banner_lines(top.banners)
    if top.gain:
        reach = f", 95 % interval {escaped(top.gain_interval)}" if top.gain_interval else ""
        yield from (f"**{top.before} -> {top.after} ({escaped(top.gain)}{reach}). {top.verdict_text}.**", "")
    for sentence in top.sentences:
        yield from (escaped(sentence), "")
    for warning in top.warnings:
        yield f"- Warning: {escaped(warning)}"
    yield from ("", "## Result", "", *table_lines(report.gain))
    if run.gain:
        counts = run.gain.counts
        yield (
            f"Right before and after {counts.both_right}, fixed by training {counts.only_after}, "
            f"broken by training {counts.only_before}, wrong before and after {counts.both_wrong}."
        )
    for facet in report.facets:
        yield from ("", *table_lines(facet.table))
    yield from _class_lines(report)
    if report.answers:
        yield from ("", *table_lines(report.answers))
    yield from ("## Audit", "", *table_lines(report.audit))
    if report.collapse:
        yield from table_lines(report.collapse)
    if report.curves:
        yield from ("## Training", "", *(f"- {escaped(curve.title)}: {escaped(curve.desc)}" for curve in report.curves))
        yield ""
    if report.reliability:
        yield from ("## Calibration", "", *table_lines(report.calibration))
    yield from _paper_lines(report)
    yield from ("## All metrics", "", *table_lines(report.metrics))
    yield from ("## How to reproduce", "", *_code(made.command), "")
    yield from (f"- {escaped(note)}" for note in made.weight_notes)
    for name, facts in (("run", made.facts), ("weights", made.weights), ("versions", made.versions)):
        if facts:
            yield from ("", f"| {name} | |", "|---|---|", *(markdown_row(map(escaped, fact)) for fact in facts))


def _class_lines(report: Report) -> Iterator[str]:
    if report.classes is None:
        return
    yield from ("## By answer", "", _MATRICES, "")
    for task in (*report.classes.shown, *report.classes.folded):
        for matrix in task.matrices:
            yield from table_lines(matrix_table(matrix))
    yield from table_lines(report.classes.table)
    yield from table_lines(report.classes.brier)


def _paper_lines(report: Report) -> Iterator[str]:
    if not report.papers:
        return
    yield from ("## Beside the published results", "")
    yield 'Rows and columns that begin with "ours" are this run, all other numbers are printed in the paper.'
    if report.source.printed:
        yield from ("", f"Printed numbers: {escaped(report.source.printed)}.")
    for paper in report.papers:
        yield from ("", *table_lines(paper))


def _code(text: str) -> list[str]:
    fence = "`" * max(3, *(len(found) + 1 for found in re.findall("`+", text)), 0)
    return [fence, text, fence]
