"""Tests that tables of scans fill the facets of patients that the table of questions leaves empty."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from medtune.benchmarks import find_source

ASKED = {
    "image_id": "BDMAP_00000001", "question": "Is a PDAC present?", "answer": "Yes", "organ": "pancreas",
    "question_type": "Recognition", "question_subtype": "PDAC existence", "split": "test",
}  # fmt: skip
SCAN = {"BDMAP ID": "BDMAP_00000001", "sex": "M", "age": "47.0", "scanner": "Philips", "contrast": "Arterial"}
FOUND = {"sex": "M", "age": "40-49", "scanner": "Philips", "phase": "arterial"}


def _facets(root: Path, table: str, scan: Mapping[str, str], **asked: str) -> Mapping[str, str]:
    for file in (root / "BDMAP_00000001" / "ct.nii.gz", root / table):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (root / "test_qa.json").write_text(json.dumps({"questions": [ASKED | asked]}))
    with (root / table).open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([scan.keys(), scan.values()])
    (question,) = find_source("ctlesionvqa").read(root, 0, root).questions
    return {name: question.facets[name] for name in FOUND if name in question.facets}


@pytest.mark.parametrize("table", ["metadata/reports_and_metadata.csv", "AbdomenAtlas3.0MiniWithMeta.csv"])
def test_scanner_and_phase_of_version_2_stand_in_the_table_of_scans(tmp_path: Path, table: str) -> None:
    assert _facets(tmp_path, table, SCAN) == FOUND


def test_the_column_of_the_phase_has_two_names(tmp_path: Path) -> None:
    assert _facets(tmp_path, "AbdomenAtlas_metadata.csv", {"BDMAP ID": SCAN["BDMAP ID"], "CT Phase": "Plain"}) == {
        "phase": "plain"
    }


def test_the_questions_own_cells_come_first(tmp_path: Path) -> None:
    assert _facets(tmp_path, "metadata/a.csv", SCAN, sex="F", contrast="Venous") == FOUND | {
        "sex": "F",
        "phase": "venous",
    }


def test_another_scans_line_says_nothing(tmp_path: Path) -> None:
    assert _facets(tmp_path, "metadata/a.csv", SCAN | {"BDMAP ID": "BDMAP_00000002"}) == {}
