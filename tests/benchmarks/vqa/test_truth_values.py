"""Tests that truth values in a CSV file mean what they mean in JSON."""

from pathlib import Path

import pytest

from tests.benchmarks.vqa.tables import read, read_text

_NOTE = "the answers are TRUE or FALSE, and are read as yes or no"


@pytest.mark.parametrize("cells", [("TRUE", "FALSE"), ("true", "False"), ("False", "False")])
def test_a_column_of_truth_values_is_yes_or_no(tmp_path: Path, cells: tuple[str, str]) -> None:
    table = read_text(tmp_path, f"question,answer\nq,{cells[0]}\nr,{cells[1]}\n")
    (tmp_path / "rows.json").write_text(
        f'[{{"question": "q", "answer": {cells[0].lower()}}}, {{"question": "r", "answer": {cells[1].lower()}}}]'
    )
    same = read(tmp_path / "rows.json")
    said, wanted = ([(q.answer, q.options, q.answer_kind, q.facets) for q in each.questions] for each in (table, same))
    assert said == wanted
    assert _NOTE in table.notes


@pytest.mark.parametrize(
    "text",
    [
        "question,answer\nq,TRUE\nr,liver\n",
        "question,answer\nq,TRUE\nr,yes\n",
        "question,answer,answer_type\nq,TRUE,open\n",
        "question,answer,A,B\nq,TRUE,TRUE,FALSE\n",
    ],
)
def test_other_answers_stay_what_they_are(tmp_path: Path, text: str) -> None:
    table = read_text(tmp_path, text)
    assert table.questions[0].answer == "TRUE"
    assert _NOTE not in table.notes


def test_a_truth_value_that_is_said_to_be_yes_or_no(tmp_path: Path) -> None:
    table = read_text(tmp_path, "question,answer,answer_type\nq,TRUE,yes/no\nr,liver,open\n")
    assert [(q.answer, q.answer_kind) for q in table.questions] == [("yes", "yes_no"), ("liver", "text")]
