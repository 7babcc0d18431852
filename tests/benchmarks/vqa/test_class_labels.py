"""Tests that the class names of a data set's label column are the options of its questions."""

from pathlib import Path

import datasets
import pytest

from medtune.data.raw.row_errors import TableOptions
from medtune.data.raw.source import SourceTable
from tests.benchmarks.vqa.tables import read

_ASKED = TableOptions(question="What is it?")


def _read(folder: Path, names: list[str], *, source: str, more: dict[str, list[object]] | None = None) -> SourceTable:
    features = {"label": datasets.ClassLabel(names=names)}
    rows = datasets.Dataset.from_dict({"label": [0, 1]}, features=datasets.Features(features))
    for name, cells in (more or {}).items():
        rows = rows.add_column(name, cells)
    if source == "hf":
        rows.save_to_disk(folder / "saved")
        return read(folder / "saved", _ASKED, name="hf")
    rows.to_parquet(folder / "rows.parquet")
    return read(folder / "rows.parquet", _ASKED)


@pytest.mark.parametrize("source", ["hf", "table"])
def test_class_names_are_the_options(tmp_path: Path, source: str) -> None:
    first, second = _read(tmp_path, ["benign", "malignant", "normal"], source=source).questions
    assert (first.answer, second.answer) == ("benign", "malignant")
    assert {first.answer_kind, second.answer_kind} == {"choice"}
    assert sorted(first.options) == sorted(second.options) == ["benign", "malignant", "normal"]
    assert first.text == "What is it?"


def test_classes_called_yes_and_no_stay_yes_and_no(tmp_path: Path) -> None:
    found = _read(tmp_path, ["No", "Yes"], source="hf").questions
    assert [(q.answer, q.answer_kind, q.options) for q in found] == [
        ("no", "yes_no", ("yes", "no")),
        ("yes", "yes_no", ("yes", "no")),
    ]


def test_options_of_the_row_come_first(tmp_path: Path) -> None:
    own: dict[str, list[object]] = {"options": [["benign", "cyst"], ["malignant", "cyst"]]}
    found = _read(tmp_path, ["benign", "malignant", "normal"], source="hf", more=own).questions
    assert [q.options for q in found] == [("benign", "cyst"), ("malignant", "cyst")]
