"""Tests that the table reader reads a table with Fetal-Gauge's columns, as the benchmark's README lists them."""

from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.fetal_gauge import TASKS
from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS, Box
from medtune.trainer.commands.cli import main
from tests.examples.fetal_gauge import write_fetal_gauge


def test_a_table_with_the_columns_has_tasks_facets_boxes_and_its_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fetal_gauge(tmp_path / "raw")
    out = tmp_path / "prepared"
    command = ["prepare", "fetal_gauge", "--source", "table", "--from", str(tmp_path / "raw"), "--out", str(out)]
    assert main([*command, "--facets", "phantom", "box_size"]) == 0, capsys.readouterr().err
    prepared = open_prepared(out)
    assert [prepared.num_questions(split) for split in SPLITS] == [20, 20, 20]
    asked = [(group, question) for split in SPLITS for group in prepared.groups(split) for question in group.questions]
    assert {question.facets["task"] for _, question in asked} == set(TASKS.values())
    assert {question.facets["phantom"] for _, question in asked} == {"yes", "no"}
    assert {len(question.options) for _, question in asked} == {2, 3, 4}
    boxes = {ref.boxes for group, question in asked if "box_size" in question.facets for ref in group.media}
    assert len(boxes) == 12
    assert (Box(5, 5, 15, 20),) in boxes
    assert {ref.boxes for group, question in asked if "box_size" not in question.facets for ref in group.media} == {()}
    benchmark = find_benchmark("fetal_gauge")
    assert all(benchmark.render(question, "letter").target in "ABCD" for _, question in asked)


def test_without_files_the_simulation_is_taken(tmp_path: Path) -> None:
    assert main(["prepare", "fetal_gauge", "--out", str(tmp_path / "prepared"), "--limit", "3"]) == 0
    assert open_prepared(tmp_path / "prepared").manifest.provenance == "synthetic"
