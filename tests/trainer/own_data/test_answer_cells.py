"""A table of answers is opened in spreadsheets, which calculate what looks like a formula."""

import csv
from pathlib import Path

import pytest

from medtune.trainer.experiment.predict import write_rows

HARMLESS = {"no lesion": "no lesion", "-5.2": "-5.2", "+3e1": "+3e1", "a = b": "a = b", "": ""}
FORMULAS = ("=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\r=1", '=HYPERLINK("x")')


@pytest.mark.parametrize("column", ["reply", "answer", "question", "media"])
def test_no_cell_is_a_formula(column: str, tmp_path: Path) -> None:
    texts = [*HARMLESS, *FORMULAS, "\x1b[31mred\x1b[0m"]
    kept = write_rows(
        tmp_path / "answers.csv", [{"id": str(number), column: text} for number, text in enumerate(texts)]
    )
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        found = [row[column] for row in csv.DictReader(file)]
    assert found[: len(HARMLESS)] == [*HARMLESS.values()]
    assert found[len(HARMLESS) : -1] == [f"'{text}" for text in FORMULAS]
    assert found[-1] == "red"
    assert [row[column] for row in kept] == texts, "only the table for spreadsheets has the apostrophes"


def test_lines_of_json_are_not_for_spreadsheets(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", [{"id": "1", "reply": "=1+1"}])
    assert (tmp_path / "answers.jsonl").read_text() == '{"id": "1", "reply": "=1+1"}\n'
