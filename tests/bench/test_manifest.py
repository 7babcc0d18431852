from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from bench.manifest import measured
from bench.measuring.subjects import released
from medtune.data.prepared.tables import read_questions
from medtune.data.types import Question


@pytest.mark.soak
def test_opening_and_reading_all_agree_in_small() -> None:
    found = measured(released(None), rows=290, items=20, test_items=4)
    (ways,) = found.ways
    assert ways.agree
    assert ways.title == "opening 580 questions about 20 scans"
    assert [limit.title for limit in found.limits] == [
        "prepared",
        "peak memory of that",
        "opened",
        "116 predictions read and scored",
    ]


@pytest.mark.soak
def test_a_row_that_reads_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_questions

    def changed(table: pa.Table) -> Iterator[Question]:
        return (replace(question, facets={**question.facets, "phase": "other"}) for question in read(table))

    monkeypatch.setattr("medtune.data.prepared.read.read_questions", changed)
    (ways,) = measured(released(None), rows=290, items=20, test_items=4).ways
    assert not ways.agree
