from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from bench import scale
from bench.measuring.subjects import released
from medtune.data.prepared.tables import read_questions
from medtune.data.types import Question


@pytest.fixture(autouse=True)
def _parts_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(part: object, asked: object, root: Path) -> scale.Spent:
        return scale.spent_on(part.__name__, released(None).name, root)  # type: ignore[attr-defined]

    monkeypatch.setattr(scale, "_alone", spent)


@pytest.mark.soak
def test_every_part_is_measured_and_opening_agrees_with_reading_all() -> None:
    found = scale.measured(released(None), 300)
    (ways,) = found.ways
    assert ways.agree
    assert ways.title == "opening 300 questions"
    assert [limit.title for limit in found.limits][::3] == [
        f"{part} 300 questions, CPU" for part in ("prepare", "score", "compare", "report")
    ]
    assert all(limit.value > 0 for limit in found.limits if "growth" not in limit.title)


@pytest.mark.soak
def test_a_row_that_reads_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = read_questions

    def changed(tables: Iterable[pa.Table]) -> Iterator[Question]:
        return (replace(question, facets={**question.facets, "phase": "other"}) for question in read(tables))

    asked = released(None)
    (tmp_path / "raw").mkdir()
    asked.release.write(tmp_path / "raw", rows=60, items=20, test_items=4)
    scale.spent_on("_prepare", asked.name, tmp_path)
    assert scale._opened(tmp_path / "data", 120).is_same
    monkeypatch.setattr("medtune.data.prepared.read.read_questions", changed)
    assert not scale._opened(tmp_path / "data", 120).is_same
