"""Writes report.html and report.md: for one run into its folder, for several runs into a folder of their own."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from medtune.data.control_characters import without_controls
from medtune.data.files import replace_file
from medtune.eval.benchmark import PaperOf
from medtune.eval.report.answer_classes import matrix_table
from medtune.eval.report.gallery import MAX_IMAGE_BYTES, MAX_ITEMS
from medtune.eval.report.html import render
from medtune.eval.report.report import RunReport, run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.runs.differences import PairsOf
from medtune.eval.report.runs.several import runs_html, runs_markdown, several_runs
from medtune.eval.report.table import banner_lines, escaped, markdown_row, table_lines

_MATRICES = (
    'Rows are the true answers, columns the answers of the model; "unread" counts questions without a readable answer.'
)

HTML, MARKDOWN = "report.html", "report.md"
_PICTURE = b"data:image/jpeg"


def run_markdown(report: RunReport) -> str:
    """Returns the report of a run as Markdown, in which texts from data and models are escaped."""
    return "\n".join(_run_lines(report)) + "\n"


def _run_lines(report: RunReport) -> Iterator[str]:
    run, top, made = report.run, report.headline, report.reproduction
    yield from (f"# {escaped(report.source.title)}: {escaped(run.results.model)}", "")
    yield from banner_lines(top.banners)
    yield from (f"**{escaped(top.result)}. {escaped(top.verdict_said)}.**", "")
    for sentence in filter(None, (top.measured, top.test, top.image.sentence if top.image else "")):
        yield from (escaped(sentence), "")
    for caveat in top.caveats:
        yield f"- {escaped(f'{caveat.lead} {caveat.detail}')}"
    for note in top.notes:
        yield from ("", escaped(note))
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
    if report.draws:
        yield from table_lines(report.draws)
    if report.agreements:
        yield from ("## Measurements", "")
        yield from (f"- {escaped(chart.title)}: {escaped(chart.desc)}" for chart in report.agreements)
        yield ""
    if report.reliability:
        yield from ("## Calibration", "", *table_lines(report.calibration))
    yield from _paper_lines(report)
    yield from ("## All metrics", "", *table_lines(report.counts), *table_lines(report.metrics))
    yield from ("## How to reproduce", "", *_code(made.command), "")
    yield from (f"- {escaped(note)}" for note in made.weight_notes)
    for name, facts in (("run", made.facts), ("weights", made.weights), ("versions", made.versions)):
        if facts:
            yield from ("", f"| {name} | |", "|---|---|", *(markdown_row(map(escaped, fact)) for fact in facts))


def _class_lines(report: RunReport) -> Iterator[str]:
    if report.classes is None:
        return
    yield from ("## By answer", "", _MATRICES, "")
    for task in (*report.classes.shown, *report.classes.folded):
        for matrix in task.matrices:
            yield from table_lines(matrix_table(matrix))
    yield from table_lines(report.classes.table)
    yield from table_lines(report.classes.brier)


def _paper_lines(report: RunReport) -> Iterator[str]:
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
    return [fence, without_controls(text), fence]


def write_report(folder: Path, paper_of: PaperOf, *, questions: Path | None = None) -> Path:
    """Writes the report of a run into its folder and returns the path of report.html.

    Where its questions are not at hand, a report that shows them is not replaced by one without.

    Args:
        questions: The prepared folder of the run, if it has been moved from `data.root`; with None it is looked for.
    """
    report = run_report(read_run(folder, questions=questions), paper_of)
    if (missing := report.gallery.missing) and (folder / HTML).is_file() and _PICTURE in (folder / HTML).read_bytes():
        raise FileNotFoundError(
            f"{folder / HTML}: the new report would lack the questions and pictures that this one shows. {missing} "
            "Give the folder by --questions DIR, or delete the report"
        )
    return _write(folder, run_html(report), run_markdown(report))


def write_runs(folders: Sequence[Path], out: Path, pairs_of: PairsOf | None = None) -> Path:
    """Writes the report on several runs into `out` and returns the path of report.html.

    Args:
        pairs_of: Compares runs that were asked the same questions; with None they are not compared.
    """
    named = [folder.resolve() for folder in folders]
    twice = next((folder for folder in named if named.count(folder) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice}: this run is named twice; name each run once")
    runs = several_runs([read_run(folder) for folder in folders], pairs_of)
    out.mkdir(parents=True, exist_ok=True)
    return _write(out, runs_html(runs), runs_markdown(runs))


def run_html(report: RunReport) -> str:
    sections = {
        "result": "Result",
        "breakdown": "By task" if report.facets else "",
        "classes": "By answer" if report.classes or report.answers else "",
        "audit": "Audit",
        "training": "Training" if report.curves else "",
        "agreement": "Measurements" if report.agreements else "",
        "calibration": "Calibration" if report.reliability else "",
        "answers": "Answers",
        "published": "Published",
        "metrics": "Metrics",
        "reproduce": "Reproduce",
        "reading": "How to read",
    }
    return render(
        "run.html.j2",
        report=report,
        sections=[(id_, name) for id_, name in sections.items() if name],
        limits={"questions": MAX_ITEMS, "megabytes": MAX_IMAGE_BYTES // 1_000_000},
    )


def _write(folder: Path, html: str, markdown: str) -> Path:
    replace_file(folder / MARKDOWN, [markdown.encode()])
    replace_file(folder / HTML, [html.encode()])
    return folder / HTML
