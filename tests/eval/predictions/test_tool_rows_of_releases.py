"""Tests that other tools' rows of U2-Bench, CTLesionVQA and M3D-VQA are matched with questions by true answers."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import openpyxl
import pytest

from medtune.benchmarks import find_source
from medtune.data.media.masks import cell_of_point
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from tests.examples import write_example

Rows = list[dict[str, str]]
Write = Callable[[Path, Sequence[Mapping[str, str]]], None]

# A table of the example, its facets, and the column with the true answers.
U2_TABLES = (
    ("disease_diagnosis/23.tsv", "DD", "23", "class_label"),
    ("disease_diagnosis/28.tsv", "DD", "28_1", "class"),
    ("view_recognition_and_assessment/28_class.tsv", "VRA", "28", "classes"),
    ("lesion_localisation/4.tsv", "LL", "04", "gt_bbox"),
    ("organ_detection/31_HC18.tsv", "OD", "31", "gt_bbox"),
    ("keypoint_detection/48.tsv", "KD", "48", "keypoints"),
    ("clinical_value_estimation/18.tsv", "CVE", "18", "measurement"),
    ("report_generation/39.tsv", "RG", "39", "report"),
    ("caption_generation/10.tsv", "CG", "10", "caption"),
)


def prepared_example(name: str, folder: Path) -> Prepared:
    write_example(name, folder / "raw")
    return prepare(find_source(name), benchmark=name, root=folder / "raw", out=folder / "prepared")


@pytest.fixture(scope="module")
def u2_bench(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_example("u2_bench", tmp_path_factory.mktemp("u2"))


@pytest.fixture(scope="module")
def ctlesionvqa(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_example("ctlesionvqa", tmp_path_factory.mktemp("ct"))


@pytest.fixture(scope="module")
def m3d_vqa(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_example("m3d_vqa", tmp_path_factory.mktemp("m3d"))


def rows_of(prepared: Prepared, name: str, *, delimiter: str) -> Rows:
    """Returns the rows of a raw table without the column of images, numbered as the tools number them."""
    with (prepared.root.parent / "raw" / name).open(encoding="utf-8", newline="") as file:
        rows = [{"index": str(number), **row} for number, row in enumerate(csv.DictReader(file, delimiter=delimiter))]
    return [{name: cell for name, cell in row.items() if name != "img_data"} for row in rows]


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


def in_any_order(
    write: Write,
    file: Path,
    rows: Sequence[Mapping[str, str]],
    capsys: pytest.CaptureFixture[str],
    run: Callable[[], int],
) -> None:
    """Checks that rows in the other order have the same replies, or are refused where nothing names them."""
    first = {row["question_id"]: row["robust"] for row in parsed(file)}
    write(file, rows[::-1])
    code, said = run(), capsys.readouterr().err
    if code == 0:
        assert {row["question_id"]: row["robust"] for row in parsed(file)} == first
    else:
        # The samples are numbered anew, so that their doc_id is wrong.
        assert write is write_samples
        assert "cannot be matched" in said


def perfect(column: str, cell: str) -> str:
    if column == "measurement":
        return str(next(iter(json.loads(cell).values())))
    if column in ("gt_bbox", "keypoints"):
        x, y, *_ = next(iter(json.loads(cell).values()))
        return cell_of_point(x, y)
    return cell


@pytest.mark.parametrize("write", [write_xlsx, write_samples], ids=["vlmevalkit", "lmms_eval"])
@pytest.mark.parametrize(("name", "task", "dataset", "column"), U2_TABLES, ids=[table[0] for table in U2_TABLES])
def test_rows_of_every_task_of_u2_bench(
    u2_bench: Prepared,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    task: str,
    dataset: str,
    column: str,
    write: Write,
) -> None:
    rows = [{**row, "prediction": perfect(column, row[column])} for row in rows_of(u2_bench, name, delimiter="\t")]
    file = tmp_path / ("model.xlsx" if write is write_xlsx else "samples.jsonl")
    write(file, rows)
    assert score(u2_bench, file, f"task={task}", f"dataset={dataset}") == 0
    found = parsed(file)
    assert len(found) == len(rows) == 6
    assert [row["robust"] for row in found] == [row["answer"] for row in found]
    in_any_order(write, file, rows, capsys, lambda: score(u2_bench, file, f"task={task}", f"dataset={dataset}"))
    write(file, [{name: cell for name, cell in row.items() if name != column} for row in rows])
    assert score(u2_bench, file, f"task={task}", f"dataset={dataset}") == 1
    assert "no row states its true answer or its question" in capsys.readouterr().err


@pytest.mark.parametrize("write", [write_xlsx, write_samples], ids=["vlmevalkit", "lmms_eval"])
@pytest.mark.parametrize(("kind", "reply"), [("multi_choice", "correct_option"), ("free_text", "answer")])
def test_a_row_of_ctlesionvqa_is_scored_by_the_format_that_was_asked(
    ctlesionvqa: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, reply: str, write: Write
) -> None:
    rows = [
        {**row, "prediction": row[reply]}
        for row in rows_of(ctlesionvqa, "DeepTumorVQA_1.0.csv", delimiter=",")
        if row["split"] == "validation"
    ]
    file = tmp_path / ("model.xlsx" if write is write_xlsx else "samples.jsonl")
    write(file, rows)
    assert score(ctlesionvqa, file, f"format={kind}") == 0
    found = parsed(file)
    assert len(found) == len(rows) == ctlesionvqa.num_questions("test") / 2
    assert [row["robust"] for row in found] == [row["answer"] for row in found]
    in_any_order(write, file, rows, capsys, lambda: score(ctlesionvqa, file, f"format={kind}"))


@pytest.mark.parametrize("write", [write_xlsx, write_samples], ids=["vlmevalkit", "lmms_eval"])
@pytest.mark.parametrize(("kind", "reply"), [("multi_choice", "Answer Choice"), ("free_text", "Answer")])
def test_a_row_of_m3d_vqa_is_scored_by_the_format_that_was_asked(
    m3d_vqa: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, reply: str, write: Write
) -> None:
    rows = [
        {**row, "prediction": f"{row[reply]}." if kind == "multi_choice" else row[reply]}
        for row in rows_of(m3d_vqa, "M3D-VQA/M3D_VQA_test.csv", delimiter=",")
    ]
    file = tmp_path / ("model.xlsx" if write is write_xlsx else "samples.jsonl")
    write(file, rows)
    assert score(m3d_vqa, file, f"format={kind}") == 0
    overall = json.loads((tmp_path / "scores.json").read_text())["overall"]
    assert (overall["value"], overall["n"]) == (1.0, len(rows))
    assert len(rows) == m3d_vqa.num_questions("test") / 2
    assert ("accuracy" if kind == "multi_choice" else "free_answers") in capsys.readouterr().out.splitlines()[0]
    in_any_order(write, file, rows, capsys, lambda: score(m3d_vqa, file, f"format={kind}"))


def test_letters_of_m3d_vqa_go_by_the_columns_of_vlmevalkit(m3d_vqa: Prepared, tmp_path: Path) -> None:
    rows = []
    for row in rows_of(m3d_vqa, "M3D-VQA/M3D_VQA_test.csv", delimiter=","):
        choices = [cell for letter in "DCBA" if (cell := row[f"Choice {letter}"]) != "NA"]
        letter = "ABCD"[choices.index(row["Answer"])]
        lettered = dict(zip("ABCD", choices, strict=False))
        rows.append({"index": row["index"], "question": row["Question"], **lettered, "answer": letter})
    file = tmp_path / "model.json"
    file.write_text(json.dumps([{**row, "prediction": f"{row['answer']}."} for row in rows]))
    assert score(m3d_vqa, file, "format=multi_choice") == 0
    assert [row["robust"] for row in parsed(file)] == [row["answer"] for row in parsed(file)]
