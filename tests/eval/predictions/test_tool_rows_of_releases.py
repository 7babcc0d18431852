"""Tests that other tools' rows of M3D-VQA are matched by the ids of rows, and that those of U2-Bench are refused."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import openpyxl
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from tests.examples import write_example

Rows = list[dict[str, str]]
Write = Callable[[Path, Sequence[Mapping[str, str]]], None]
M3D = "M3D-VQA/M3D_VQA_test.csv"


def prepared_example(name: str, folder: Path) -> Prepared:
    write_example(name, folder / "raw")
    return prepare(find_source(name), benchmark=name, root=folder / "raw", out=folder / "prepared")


@pytest.fixture(scope="module")
def u2_bench(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_example("u2_bench", tmp_path_factory.mktemp("u2"))


@pytest.fixture(scope="module")
def m3d_vqa(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_example("m3d_vqa", tmp_path_factory.mktemp("m3d"))


def rows_of(prepared: Prepared, name: str, *, delimiter: str) -> Rows:
    """Returns the rows of a raw table without the column of images, numbered as the tools number them."""
    with (prepared.root.parent / "raw" / name).open(encoding="utf-8", newline="") as file:
        rows = [{"index": str(number), **row} for number, row in enumerate(csv.DictReader(file, delimiter=delimiter))]
    return [{name: cell for name, cell in row.items() if name != "img_data"} for row in rows]


def m3d_rows(prepared: Prepared) -> Rows:
    """Returns the rows of the test table; `index` is the number of each, from 1."""
    rows = rows_of(prepared, M3D, delimiter=",")
    return [{**row, "index": str(number)} for number, row in enumerate(rows, start=1)]


def write_xlsx(file: Path, rows: Sequence[Mapping[str, str]]) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for cells in (list(rows[0]), *(list(row.values()) for row in rows)):
        sheet.append(cells)
    book.save(file)


def write_samples(file: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Writes lmms-eval's samples, which name no row of the release."""
    with file.open("w") as out:
        for number, row in enumerate(rows):
            doc = {name: cell for name, cell in row.items() if name not in ("index", "prediction")}
            out.write(json.dumps({"doc_id": number, "doc": doc, "resps": [[row["prediction"]]]}) + "\n")


def score(prepared: Prepared, file: Path, *only: str) -> int:
    name = prepared.manifest.source
    return main(["score", name, "--predictions", str(file), "--questions", str(prepared.root), "--only", *only])


def parsed(file: Path) -> Rows:
    return [json.loads(line) for line in (file.parent / "parsed.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("write", [write_xlsx, write_samples], ids=["vlmevalkit", "lmms_eval"])
def test_rows_of_u2_bench_name_no_question_and_are_refused(
    u2_bench: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    rows = rows_of(u2_bench, "disease_diagnosis/23.tsv", delimiter="\t")
    file = tmp_path / ("model.xlsx" if write is write_xlsx else "samples.jsonl")
    write(file, [{**row, "prediction": row["class_label"]} for row in rows])
    assert score(u2_bench, file, "task=DD", "dataset=23") == 1
    said = capsys.readouterr().err
    assert f"{file}: 6 rows cannot be matched with 6 questions, so nothing was scored" in said
    assert (
        "in question_id (not there), qid (not there), id (not there), and for one that is no plain number in " in said
    )
    assert "class_label" in said
    assert "for the question's text in none of question, input, " in said
    assert "it asks no question of this split" in said


@pytest.mark.parametrize("write", [write_xlsx, write_samples], ids=["vlmevalkit", "lmms_eval"])
@pytest.mark.parametrize(
    ("kind", "reply"), [("multi_choice", "Answer Choice"), ("free_text", "Answer")], ids=["choices", "free"]
)
def test_a_row_of_m3d_vqa_goes_by_its_id_in_the_format_that_was_asked(
    m3d_vqa: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, reply: str, write: Write
) -> None:
    rows = [
        {**row, "prediction": f"{row[reply]}." if kind == "multi_choice" else row[reply]} for row in m3d_rows(m3d_vqa)
    ]
    file = tmp_path / ("model.xlsx" if write is write_xlsx else "samples.jsonl")
    write(file, [{"id": f"{M3D} {row['index']} {kind}", **row} for row in rows[::-1]])
    assert score(m3d_vqa, file, f"format={kind}") == 0
    overall = json.loads((tmp_path / "scores.json").read_text())["overall"]
    assert (overall["value"], overall["n"]) == (1.0, len(rows))
    assert len(rows) == m3d_vqa.num_questions("test") / 2
    assert ("accuracy" if kind == "multi_choice" else "free_answers") in capsys.readouterr().out.splitlines()[0]
    write(file, rows)
    assert score(m3d_vqa, file, f"format={kind}") == 1
    assert "for the question's text in none of question, " in capsys.readouterr().err


def test_letters_of_m3d_vqa_go_by_the_columns_of_vlmevalkit(m3d_vqa: Prepared, tmp_path: Path) -> None:
    rows = []
    for row in m3d_rows(m3d_vqa):
        choices = [cell for letter in "DCBA" if (cell := row[f"Choice {letter}"]) != "NA"]
        letter = "ABCD"[choices.index(row["Answer"])]
        lettered = dict(zip("ABCD", choices, strict=False))
        rows.append(
            {"id": f"{M3D} {row['index']} multi_choice", "question": row["Question"], **lettered, "answer": letter}
        )
    file = tmp_path / "model.json"
    file.write_text(json.dumps([{**row, "prediction": f"{row['answer']}."} for row in rows]))
    assert score(m3d_vqa, file, "format=multi_choice") == 0
    assert [row["robust"] for row in parsed(file)] == [row["answer"] for row in parsed(file)]
