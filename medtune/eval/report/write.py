"""Writes report.html and report.md: for one run into its folder, for several runs into a folder of their own."""

from collections.abc import Sequence
from pathlib import Path

from medtune.eval.predictions.files import replace_file
from medtune.eval.published_numbers import PaperOf
from medtune.eval.report.gallery import MAX_IMAGE_BYTES, MAX_ITEMS
from medtune.eval.report.html import render
from medtune.eval.report.markdown import run_markdown
from medtune.eval.report.report import Report, run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.several import runs_html, runs_markdown, several_runs

HTML, MARKDOWN = "report.html", "report.md"


def write_report(folder: Path, paper_of: PaperOf) -> Path:
    """Writes the report of a run into its folder and returns the path of report.html."""
    report = run_report(read_run(folder), paper_of)
    return _write(folder, run_html(report), run_markdown(report))


def write_runs(folders: Sequence[Path], out: Path) -> Path:
    """Writes the report on several runs into `out` and returns the path of report.html."""
    named = [folder.resolve() for folder in folders]
    twice = next((folder for folder in named if named.count(folder) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice}: this run is named twice; name each run once")
    runs = several_runs([read_run(folder) for folder in folders])
    out.mkdir(parents=True, exist_ok=True)
    return _write(out, runs_html(runs), runs_markdown(runs))


def run_html(report: Report) -> str:
    """Returns the HTML page of one run."""
    sections = {
        "result": "Result",
        "breakdown": "By task" if report.facets else "",
        "classes": "By answer" if report.classes or report.answers else "",
        "audit": "Audit",
        "training": "Training" if report.curves else "",
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
