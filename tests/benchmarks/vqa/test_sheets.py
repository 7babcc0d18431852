"""Tests workbooks as people write them: titles above the header, data on another sheet, merged cells, formulas."""

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from medtune.data.raw.source import SourceTable, TableOptions
from tests.benchmarks.vqa.own_data import pictures, read

HEADER = ("image", "question", "answer", "patient")
ROWS = [(f"us_{n}.png", "Is it there?", ("yes", "no")[n % 2], f"P{n}") for n in range(4)]


def _book(folder: Path, sheets: dict[str, list[tuple[Any, ...]]], merged: tuple[str, ...] = ()) -> Path:
    pictures(folder, 4)
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        for cells in merged:
            sheet.merge_cells(cells)
    book.save(folder / "data.xlsx")
    return folder / "data.xlsx"


def _answers(table: SourceTable) -> list[str]:
    assert not table.rejects
    assert all(table.media[question.media_id] for question in table.questions)
    return [question.answer for question in table.questions]


TITLED = [("Studie Mamma 2026",), (), HEADER, *ROWS]


def test_a_title_above_the_header_is_explained_and_the_row_can_be_named(tmp_path: Path) -> None:
    path = _book(tmp_path, {"Übersicht": TITLED, "data": [HEADER, *ROWS]})
    match = (
        r"header is taken from row 1 of the sheet 'Übersicht'; --header ROW and --sheet NAME \('data'\) take another"
    )
    with pytest.raises(ValueError, match=match):
        read(path)
    for said in (TableOptions(header=3), TableOptions(sheet="data"), TableOptions(sheet="Übersicht", header=3)):
        assert _answers(read(path, said)) == ["yes", "no", "yes", "no"]
    by_row = read(path, TableOptions(header=3, columns={"patient": ""}))
    assert by_row.questions[0].id == "data.xlsx, 4"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"sheet": "dta"}, r"no sheet 'dta' with a header and rows\. Did you mean 'data'"),
        ({"header": 40}, r"row 40 of the sheet 'data' is empty or has no row under it"),
        ({"header": 2}, r"row 2 of the sheet 'data' is empty"),
    ],
)
def test_a_sheet_or_row_that_is_not_there_is_named(tmp_path: Path, said: dict[str, Any], message: str) -> None:
    path = _book(tmp_path, {"data": [HEADER, (), *ROWS]})
    with pytest.raises(ValueError, match=message):
        read(path, TableOptions(**said))


def test_the_header_line_of_a_text_file_can_be_named(tmp_path: Path) -> None:
    pictures(tmp_path, 4)
    text = "\n".join(["Studie Mamma; 2026", "", ";".join(HEADER), *(";".join(row) for row in ROWS)])
    (path := tmp_path / "data.csv").write_text(text)
    with pytest.raises(ValueError, match="--header LINE"):
        read(path)
    table = read(path, TableOptions(header=3))
    assert _answers(table) == ["yes", "no", "yes", "no"]
    assert table.questions[0].id == "data.csv, 4"
    path.write_text("a title of one cell\n" + text.partition("\n\n")[2].replace(";", ","))
    with pytest.raises(ValueError, match="--header LINE"):
        read(path)
    assert _answers(read(path, TableOptions(header=2))) == ["yes", "no", "yes", "no"]


def test_sheets_belong_to_workbooks(tmp_path: Path) -> None:
    (path := tmp_path / "data.csv").write_text("image,label\nus_0.png,a\n")
    with pytest.raises(ValueError, match=r"--sheet names a sheet of a workbook \(\.xlsx\)"):
        read(path, TableOptions(sheet="data"))
    (path := tmp_path / "data.json").write_text("[]")
    with pytest.raises(ValueError, match="--sheet and --header belong to workbooks and text files"):
        read(path, TableOptions(header=2))


def test_merged_cells_hold_the_value_of_their_first(tmp_path: Path) -> None:
    asked = [(None, None, "Which class?", "benign"), ("P0", "us_0.png", "Is it there?", "yes")][::-1]
    more = [("P1", "us_1.png", "Is it there?", "no"), (None, None, "Which class?", "malignant")]
    rows = [("patient", "image", "question", "answer"), *asked, *more]
    path = _book(tmp_path, {"data": rows}, ("A2:A3", "B2:B3", "A4:A5", "B4:B5"))
    table = read(path)
    assert _answers(table) == ["yes", "benign", "no", "malignant"]
    assert [question.patient_id for question in table.questions] == ["P0", "P0", "P1", "P1"]
    (note,) = (note for note in table.notes if "merged" in note)
    assert note.startswith("data.xlsx: 4 merged cells of the sheet 'data' (A2:A3, B2:B3, A4:A5, ...) hold their value")


def test_a_column_of_pictures_that_is_empty_everywhere_is_refused(tmp_path: Path) -> None:
    formulas = [(f'=CONCATENATE("us_{n}",".png")', *row[1:]) for n, row in enumerate(ROWS)]
    path = _book(tmp_path, {"data": [HEADER, *formulas]})
    with pytest.raises(ValueError, match=r"the column 'image' is empty in all rows.*formulas.*save it in Excel"):
        read(path)
