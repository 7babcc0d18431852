"""Tests what spreadsheets change (ids without zeros, grades that become dates), and columns that hold the answer."""

import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from medtune.data.raw.source import SourceTable, TableOptions
from tests.benchmarks.vqa.own_data import pictures, read, read_text


def _sheet(folder: Path, header: str, rows: list[list[Any]]) -> SourceTable:
    pictures(folder, 6)
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in (header.split(","), *rows):
        sheet.append(row)
    book.save(folder / "data.xlsx")
    return read(folder / "data.xlsx")


@pytest.mark.parametrize(
    ("first", "second"), [("007", 7), ("007", "7"), ("P07", "P7"), ("S1-0012", "S1-12"), (0, "000"), ("12", "0012")]
)
def test_ids_that_differ_in_leading_zeros_alone_are_refused_with_their_rows(
    tmp_path: Path, first: object, second: object
) -> None:
    rows: list[list[Any]] = [["us_0.png", "q", "a", first], ["us_1.png", "q", "b", second], ["us_2.png", "q", "c", 9]]
    with pytest.raises(
        ValueError, match=r"data.xlsx, row 3: .* data.xlsx, row 2 but for leading zeros.*as text"
    ) as said:
        _sheet(tmp_path, "image,question,answer,patient", rows)
    assert str(second) not in str(said.value).partition("row 3")[2].replace("row 2", "")


@pytest.mark.parametrize("ids", [("007", "008", "070"), (7, 70, "0.7"), ("P1", "P10", "P100"), ("a0", "a", "0a")])
def test_other_ids_are_different_patients(tmp_path: Path, ids: tuple[object, ...]) -> None:
    rows: list[list[Any]] = [[f"us_{n}.png", "q", "a", each] for n, each in enumerate(ids)]
    assert len({each.patient_id for each in _sheet(tmp_path, "image,question,answer,patient", rows).questions}) == 3


def test_ids_of_two_files_are_compared_too(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pictures(tmp_path / "raw", 4)
    for name, patients in (("train", ("007", "008")), ("test", ("9", "7"))):
        text = "".join(f"us_{n + 2 * (name == 'test')}.png,q,a,{each}\n" for n, each in enumerate(patients))
        (tmp_path / "raw" / f"{name}.csv").write_text(f"image,question,answer,patient\n{text}")
    with pytest.raises(ValueError, match=r"leading zeros"):
        read(tmp_path / "raw")


DATES = ("2026-02-01", "01.Feb", "02.Mrz", "1-Feb", "Feb-01", "01-févr", "1. Feb", "01.02.2026", "2/1/2026", "2月1日")


@pytest.mark.parametrize("date", [*DATES, datetime.datetime(2026, 2, 1), datetime.date(2026, 2, 1)])
def test_a_grade_that_became_a_date_is_rejected_by_name(tmp_path: Path, date: object) -> None:
    answers = ["0", "1", date, "0", "1", "2"]
    rows: list[list[Any]] = [[f"us_{n}.png", "Which grade?", each] for n, each in enumerate(answers)]
    table = _sheet(tmp_path, "image,question,answer", rows)
    (reject,) = table.rejects
    assert (reject.row, reject.field) == (4, "answer")
    assert "a spreadsheet made this answer a date" in reject.reason
    assert "--answers" in reject.reason
    assert "2026" not in reject.reason
    assert {each.answer for each in table.questions} == {"0", "1", "2"}


def test_what_the_user_says_of_a_date_is_taken(tmp_path: Path) -> None:
    answers = ["0", "1", "01.Feb", "0", "1", "01.Feb"]
    text = "".join(f"us_{n}.png,Which grade?,{each}\n" for n, each in enumerate(answers))
    table = read_text(tmp_path, f"image,question,answer\n{text}", TableOptions(answers={"01.feb": "1-2"}))
    assert not table.rejects
    assert {each.answer for each in table.questions} == {"0", "1", "1-2"}
    named = read_text(tmp_path / "again", f"image,question,answer\n{text}")
    assert [reject.reason.rpartition("--answers ")[2] for reject in named.rejects] == ["01.Feb=1-2"] * 2


def test_an_option_that_became_a_date_is_rejected_by_name(tmp_path: Path) -> None:
    text = "image,question,A,B,C,answer\nus_0.png,Which grade?,0,01.Feb,3,A\nus_1.png,When?,01.Feb,02.Feb,03.Feb,B\n"
    table = read_text(tmp_path, text)
    assert [each.answer for each in table.questions] == ["02.Feb"]
    assert "a spreadsheet made an option a date" in table.rejects[0].reason


def test_labels_that_became_dates_are_named(tmp_path: Path) -> None:
    text = "image,grades\nus_0.png,0; 01.Feb\nus_1.png,3\nus_2.png,01.Feb\n"
    with pytest.raises(ValueError, match=r"the labels '01.Feb': .*made these labels a date.*--answers 01.Feb=1-2"):
        read_text(tmp_path, text, TableOptions(columns={"labels": "grades"}))


@pytest.mark.parametrize(
    "answers",
    [
        ("2026-02-01", "2026-03-02", "2025-12-24"),
        ("1-2", "2-3", "0"),
        ("may", "second", "mass of 1/2"),
        ("12.5", "1.2", "3"),
        ("marked oedema 1", "decrease 3", "octopus 2"),
    ],
)
def test_real_dates_and_other_words_stay(tmp_path: Path, answers: tuple[str, ...]) -> None:
    text = "".join(f"us_{n}.png,When or what?,{each}\n" for n, each in enumerate(answers))
    table = read_text(tmp_path, f"image,question,answer\n{text}")
    assert not table.rejects
    assert len(table.questions) == 3


OPTIONS = ("liver", "kidney", "spleen", "colon")
ANSWERS = (1, 0, 3, 2, 1, 0)


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("Answer_label", lambda place: "ABCD"[place]),
        ("correct_option", lambda place: f"({'abcd'[place]})"),
        ("answer_position", lambda place: str(place)),
        ("nr", lambda place: str(place + 1)),
        ("solution", lambda place: OPTIONS[place].title()),
        ("gt", lambda place: f"{'ABCD'[place]}: {OPTIONS[place]}"),
    ],
)
def test_a_column_that_holds_the_answer_is_no_facet(tmp_path: Path, name: str, cell: object) -> None:
    assert callable(cell)
    rows = "".join(
        f"us_{n}.png,Which organ?,{','.join(OPTIONS)},{OPTIONS[place]},{cell(place)},{'ew'[n > 2]}\n"
        for n, place in enumerate(ANSWERS)
    )
    text = f"image,question,A,B,C,D,answer,{name},ward\n{rows}"
    table = read_text(tmp_path, text)
    assert {*table.questions[0].facets} == {"task", "ward"}
    assert f"no facets, as they hold the answer: {name}" in table.notes
    named = read_text(tmp_path / "named", text, TableOptions(facets=(name,)))
    assert name in named.questions[0].facets


@pytest.mark.parametrize("column", ["0 1 0 1 0 1", "2 7 2 7 2 7", "yes no yes no yes no"])
def test_a_code_of_the_class_is_no_facet(tmp_path: Path, column: str) -> None:
    rows = "".join(
        f"us_{n}.png,{('benign', 'malignant')[n % 2]},{code},{'ew'[n > 2]}\n" for n, code in enumerate(column.split())
    )
    table = read_text(tmp_path, f"image,label,code,ward\n{rows}")
    assert {*table.questions[0].facets} == {"task", "ward"}


def test_a_column_that_only_goes_with_the_answer_in_most_rows_stays_a_facet(tmp_path: Path) -> None:
    rows = "".join(
        f"us_{n}.png,Is it?,{('yes', 'no')[n % 2]},{(n + (n == 5)) % 2},{('left', 'right')[n % 2]}\n" for n in range(6)
    )
    table = read_text(tmp_path, f"image,question,answer,scanner,side\n{rows}")
    assert {*table.questions[0].facets} == {"task", "scanner", "side"}
