from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from medtune.data.prepared.tables import read_questions
from medtune.data.types import Question
from medtune.trainer.benches.manifest import measured, write_raw


def test_opening_and_reading_all_agree_in_small() -> None:
    found = measured(rows=290, scans=20, test_scans=4)
    (ways,) = found.ways
    assert ways.agree
    assert ways.title == "opening 580 questions about 20 scans"
    assert [limit.title for limit in found.limits] == [
        "prepared",
        "peak memory of that",
        "opened",
        "116 predictions read and scored",
    ]


def test_a_row_that_reads_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_questions

    def changed(table: pa.Table) -> Iterator[Question]:
        return (replace(question, facets={**question.facets, "phase": "other"}) for question in read(table))

    monkeypatch.setattr("medtune.data.prepared.read.read_questions", changed)
    (ways,) = measured(rows=290, scans=20, test_scans=4).ways
    assert not ways.agree


def test_every_question_has_80_to_120_characters(tmp_path: Path) -> None:
    write_raw(tmp_path, rows=2000, scans=4, test_scans=1)
    (table,) = tmp_path.glob("*.csv")
    with table.open(encoding="utf-8", newline="") as file:
        lengths = [len(row["question"]) for row in csv.DictReader(file)]
    assert len(lengths) == 2000
    assert min(lengths) >= 80
    assert max(lengths) <= 120
