"""Tests that every page of a report names the method of its intervals."""

from pathlib import Path

from medtune.benchmarks import paper_of
from medtune.eval.report.write import write_report, write_runs
from medtune.eval.statistics.intervals import METHOD
from tests.eval.report.folders import change_json, write_run


def read(path: Path) -> str:
    return path.read_text().replace("&#39;", "'")


def test_report_of_one_run_and_of_several_name_the_method(prepared_tiny: Path, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, prepared_tiny) for name in ("a", "b")]
    for page in (write_report(runs[0], paper_of), runs[0] / "report.md", write_runs(runs, tmp_path / "several.html")):
        assert f"95 % intervals: {METHOD}." in read(page)


def test_the_method_of_a_file_is_named_as_the_file_has_it(prepared_tiny: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", prepared_tiny)
    change_json(run / "results.json", "interval_method", value="of another tool")
    assert "95 % intervals: of another tool." in read(write_report(run, paper_of))
