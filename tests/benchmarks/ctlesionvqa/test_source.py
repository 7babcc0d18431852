"""Tests the reader of CTLesionVQA: both versions, all spellings, both formats of a row, scans and their facets."""

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import find_source
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import SPELLINGS, number_and_unit, text
from medtune.benchmarks.ctlesionvqa.subtypes import V1, V2_ONLY
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.data.types import Question
from medtune.trainer.commands.cli import main
from tests.examples import write_example

V1_ROW: dict[str, object] = {
    "question_id": 1, "image_id": "BDMAP_00000001", "spacing": "[0.8222656 0.8222656 2.5 ]", "shape": "(512, 512, 339)",
    "sex": "F", "age": 61.0, "scanner": "SIEMENS", "contrast": "Venous", "question": "What is the volume of the liver?",
    "answer": "1293.7 cm³",
    "multiple_choice_question": "What is the volume of the liver? A: 1293.7 cm³ B: 800 cm³ C: 2000 cm³ D: 900.5 cm³",
    "correct_option": "A", "organ": "liver", "lesion": "", "question_type": "Measurement",
    "question_subtype": "organ_volume_measurement", "split": "train",
}  # fmt: skip
V2_ROW: dict[str, object] = {
    "qid": "bench_00017",
    "image_id": "BDMAP_00000001",
    "spacing": [0.8, 0.8, 2.5],
    "shape": [512, 512, 339],
    "sex": "M",
    "age": 47,
    "question": "Is a PDAC present?",
    "answer": "Yes",
    "mc_question": "Is a PDAC present? A: Yes B: No",
    "correct_option": "A",
    "organ": "pancreas",
    "lesion": True,
    "question_type": "Recognition",
    "question_subtype": "PDAC existence",
    "requires_tools": ["segment"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Makes empty scan files, which suffice because the reader does not open them."""
    folder = tmp_path / "raw"
    for number in range(4):
        touch(folder / f"BDMAP_{number:08d}" / "ct.nii.gz")
    return folder


def touch(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


def write(root: Path, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(column for row in rows for column in row))
    if file.suffix == ".csv":
        with file.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.DictWriter(opened, names)
            writer.writeheader()
            writer.writerows(rows)
    elif file.suffix == ".parquet":
        pq.write_table(pa.table({column: [row.get(column) for row in rows] for column in names}), file)
    elif file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        about = {"version": "2.0", "num_questions": len(rows), "question_types": []}
        file.write_text(json.dumps({**about, "questions": rows}))


def read(root: Path) -> SourceTable:
    return find_source("ctlesionvqa").read(root, 0, root)


def both(root: Path, row: Mapping[str, object], name: str = "questions.csv") -> dict[str, Question]:
    """Writes a table of one row and returns its questions by format."""
    write(root, name, [row])
    table = read(root)
    assert not table.rejects, table.rejects
    return {question.facets["format"]: question for question in table.questions}


def free(root: Path, **changes: object) -> Question:
    return both(root, V1_ROW | changes)["free_text"]


@pytest.mark.parametrize("name", ["questions.csv", "a.parquet", "a.jsonl", "a.json", "train/a.csv", "Data/a.csv"])
def test_a_row_of_v1_is_two_questions_in_every_kind_of_file(root: Path, name: str) -> None:
    found = both(root, V1_ROW, name)
    asked, chosen = found["free_text"], found["multi_choice"]
    assert (asked.text, asked.answer, asked.unit, asked.answer_kind) == (
        "What is the volume of the liver?", "1293.7", "cm³", "number")  # fmt: skip
    assert (chosen.text, chosen.options[1:3], chosen.answer, chosen.answer_kind) == (
        "What is the volume of the liver?", ("800 cm³", "2000 cm³"), "1293.7 cm³", "choice")  # fmt: skip
    assert asked.facets == {
        "task": "measurement", "subtype": "organ volume measurement", "format": "free_text", "organ": "liver",
        "sex": "F", "age": "60-69", "scanner": "Siemens", "phase": "venous",
    }  # fmt: skip
    assert asked.patient_id == chosen.patient_id == asked.media_id == "BDMAP_00000001"
    assert asked.split == "train"


def test_v2_as_released(root: Path) -> None:
    found = both(root, V2_ROW, "benchmark/test_qa.json")
    assert {q.split for q in found.values()} == {"test"}
    assert (found["free_text"].answer_kind, found["free_text"].options) == ("yes_no", ("Yes", "No"))
    assert found["multi_choice"].options == ("Yes", "No")
    assert found["free_text"].facets["subtype"] == "PDAC existence"
    assert "phase" not in found["free_text"].facets


def test_files_of_v2_state_the_split_and_a_flat_twin_is_read_once(root: Path) -> None:
    for number, name in enumerate(["benchmark/test_qa.json", "train/train_qa.csv", "train/val_qa_pool.csv"]):
        row = {key: value for key, value in V2_ROW.items() if key not in ("spacing", "shape", "requires_tools")}
        write(root, name, [row | {"image_id": f"BDMAP_{number:08d}"}])
    write(root, "benchmark/test_qa.jsonl", [V2_ROW])
    table = read(root)
    assert {q.media_id[-1]: q.split for q in table.questions} == {"0": "test", "1": "train", "2": "val"}
    assert len(table.questions) == 6


def test_validation_of_v1_is_its_test_and_val_comes_out_of_train(tmp_path: Path) -> None:
    write_example("ctlesionvqa", tmp_path / "raw")
    made = prepare(find_source("ctlesionvqa"), benchmark="ctlesionvqa", root=tmp_path / "raw", out=tmp_path / "out")
    assert made.manifest.notes == (
        "the release's validation questions are its test, and are test here",
        "the source brings no val: 1 of 8 patients of its train are val here, by seed 0",
    )
    assert [made.manifest.num_patients[split] for split in ("train", "val", "test")] == [7, 1, 2]
    assert made.kinds == {"volume"}


@pytest.mark.parametrize("name", ["questions.csv", "a.parquet", "a.jsonl", "a.json"])
@pytest.mark.parametrize("alias", SPELLINGS)
def test_every_other_spelling_of_a_column_gives_the_same_questions(root: Path, alias: str, name: str) -> None:
    # Of a subtype that nobody knows the task is what the column says.
    row = {SPELLINGS.get(column, column): value for column, value in V1_ROW.items()}
    row["question_subtype"] = "spleen colour"

    def renamed(theirs: str) -> SourceTable:
        write(root, name, [{theirs if column == SPELLINGS[alias] else column: value for column, value in row.items()}])
        return read(root)

    ours = both(root, row, name)
    assert {q.facets["format"]: q for q in renamed(alias).questions} == ours
    assert {q.facets["format"]: q for q in renamed(f" {alias.replace('_', ' ').title()} ").questions} == ours
    # A table without scans is none of questions, so another has to be there.
    write(root, "empty.csv", [V1_ROW | {"image_id": ""}])
    assert list(renamed(f"{alias} 2").questions) != list(ours.values())


def test_the_two_files_of_a_third_party_hold_one_format_each_and_are_the_test(root: Path) -> None:
    """Photon's copies of v1, whose keys have spaces, in files that are named by split and format."""
    shared = ("image_id", "organ", "question_type", "question_subtype")
    of_format = {"free_text": ("question", "answer"), "multi_choice": ("multiple_choice_question", "correct_option")}
    for name, columns in of_format.items():
        row = {column.replace("_", " "): V1_ROW[column] for column in (*shared, *columns)}
        write(root, f"val_{name}.jsonl", [row])
    write(root, "train_free_text.jsonl", [V1_ROW | {"image_id": "BDMAP_00000002", "split": ""}])
    questions = read(root).questions
    assert {(q.split, q.facets["format"], q.media_id[-1]) for q in questions} == {
        ("test", "free_text", "1"), ("test", "multi_choice", "1"),
        ("train", "free_text", "2"), ("train", "multi_choice", "2"),
    }  # fmt: skip
    assert {(q.answer, q.facets["subtype"]) for q in questions if q.split == "test"} == {
        ("1293.7", "organ volume measurement"), ("1293.7 cm³", "organ volume measurement"),
    }  # fmt: skip


@pytest.mark.parametrize("theirs", ["Image ID", "BDMAP ID", "IMAGE_ID"])
def test_columns_in_any_case_with_spaces(root: Path, theirs: str) -> None:
    expected = both(root, V1_ROW)
    (root / "questions.csv").unlink()
    row = {theirs if name == "image_id" else name.replace("_", "  ").upper(): value for name, value in V1_ROW.items()}
    assert both(root, row) == expected


@pytest.mark.parametrize("name", [name for table in (V1, V2_ONLY) for names in table.values() for name in names])
def test_every_subtype_is_known_with_underscores_and_any_case(root: Path, name: str) -> None:
    question = free(root, question_subtype=name.replace(" ", "_").upper())
    assert question.facets["subtype"] == name
    assert question.facets["task"] in V1


def test_there_are_29_and_42_subtypes() -> None:
    assert [sum(map(len, V1.values())), sum(map(len, V1.values())) + sum(map(len, V2_ONLY.values()))] == [29, 42]


def test_an_unknown_subtype_is_kept_under_its_type_and_noted(root: Path) -> None:
    question = free(root, question_subtype="spleen colour", question_type="Visual_Reasoning")
    assert question.facets["task"] == "visual reasoning"
    assert read(root).notes == ("1 questions of the unknown subtype 'spleen colour'",)


@pytest.mark.parametrize(
    ("subtype", "question", "answer", "kind", "said", "unit"),
    [
        ("largest lesion slice", "Which slice?", "Slice 174", "number", "174", None),
        ("organ HU measurement", "What is the mean HU?", "104.8", "number", "104.8", None),
        ("tumor organ HU difference", "Difference (HU)?", "-32.4", "number", "-32.4", "HU"),
        ("organ aggregation", "Volume in cm^3?", "1,428.3", "number", "1428.3", "cm^3"),
        ("lesion counting", "How many?", "3", "number", "3", None),
        ("fatty liver", "Is it fatty?", "yes", "yes_no", "Yes", None),
        ("pancreatic tumor staging", "Which stage?", "T2", "text", "T2", None),
        ("adjacent organ", "Which?", "Stomach", "text", "Stomach", None),
    ],
)
def test_answers_by_what_is_asked(
    root: Path, subtype: str, question: str, answer: str, kind: str, said: str, unit: str | None
) -> None:
    found = free(root, question_subtype=subtype, question=question, answer=answer)
    assert (found.answer_kind, found.answer, found.unit) == (kind, said, unit)


@pytest.mark.parametrize(
    "mc_question",
    [
        "Which? A: left B: right",
        "Which?\nA. left\nB. right",
        "Which?\n(A) left\n(B) right",
        "Which?\nA) left\nB) right",
        "Which? A. left B. right",
    ],
)
@pytest.mark.parametrize("correct", ["B", "b", "B.", "(B)", "right", "B: right"])
def test_options_and_keys_in_every_style(root: Path, mc_question: str, correct: str) -> None:
    found = both(root, V1_ROW | {"multiple_choice_question": mc_question, "correct_option": correct})["multi_choice"]
    assert (found.text, found.options, found.answer) == ("Which?", ("left", "right"), "right")


@pytest.mark.parametrize(
    ("column", "format_"), [("question", "multi_choice"), ("multiple_choice_question", "free_text")]
)
def test_a_row_may_have_one_format(root: Path, column: str, format_: str) -> None:
    assert both(root, V1_ROW | {column: ""}).keys() == {format_}


@pytest.mark.parametrize(
    ("changes", "message", "lost"),
    [
        ({"answer": ""}, "questions.csv, line 1, field 'answer': wanted an answer", 1),
        ({"answer": "1 or 2"}, "field 'answer': wanted one number, got '1 or 2'", 1),
        ({"correct_option": "E"}, "field 'correct_option': 'E' is not among the 4 options", 1),
        ({"correct_option": ""}, "field 'correct_option': '' is not among the 4 options", 1),
        ({"multiple_choice_question": "Which?"}, "field 'mc_question': wanted two or more different options", 1),
        ({"multiple_choice_question": "Q A: 1 B: 1"}, "field 'mc_question': wanted two or more different options", 1),
        ({"question_subtype": ""}, "field 'question_subtype': wanted a subtype", 2),
        ({"image_id": "BDMAP_00000099"}, "field 'image_id': its scan is not in the folder", 2),
        ({"image_id": ""}, "field 'image_id': wanted a scan's name", 2),
        ({"question": "", "multiple_choice_question": ""}, "field 'question': wanted a question", 1),
    ],
)
def test_a_wrong_row_is_rejected_alone(root: Path, changes: dict[str, object], message: str, lost: int) -> None:
    write(root, "questions.csv", [V1_ROW | changes, V1_ROW])
    table = read(root)
    assert [message in str(reject) for reject in table.rejects] == [True] * lost
    assert len(table.questions) == (4 - lost if lost == 2 or "question" not in changes else 2)


def test_missing_scans_are_listed_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [V1_ROW | {"image_id": f"BDMAP_{number:08d}"} for number in (1, 7, 7, 8)]
    write(root, "questions.csv", rows)
    assert main(["prepare", "ctlesionvqa", "--from", str(root), "--list-missing"]) == 0
    names = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["BDMAP_00000007/ct.nii.gz", "BDMAP_00000008/ct.nii.gz"]


@pytest.mark.parametrize("layout", ["joint", "split", "v2"])
def test_scans_and_masks_in_joint_and_split_folders(root: Path, layout: str) -> None:
    shutil.rmtree(root)
    scans, masks = {"joint": (".", "."), "split": ("image_only", "mask_only"), "v2": ("benchmark/ct", "masks")}[layout]
    touch(root / scans / "BDMAP_00000001" / "ct.nii.gz")
    for organ in ("liver", "liver_lesion", "kidney_left", "aorta"):
        touch(root / masks / "BDMAP_00000001" / "segmentations" / f"{organ}.nii.gz")
    write(root, "questions.csv", [V1_ROW])
    ((ref,),) = read(root).media.values()
    assert ref.path == root / scans / "BDMAP_00000001" / "ct.nii.gz"
    # Masks of lesions would tell the answer.
    assert [organ for organ, _ in ref.masks] == ["kidney_left", "liver"]


def test_size_and_contrast_of_lesions_come_from_the_scans_other_answers(root: Path) -> None:
    existence = {"question_subtype": "liver lesion existence", "answer": "Yes"}
    diameter = {"question_subtype": "largest lesion diameter", "answer": "31 mm"}
    contrast = {"question_subtype": "tumor organ HU difference", "answer": "-26.5"}
    write(root, "questions.csv", [V1_ROW | existence, V1_ROW | diameter, V1_ROW | contrast,
                                  V1_ROW | existence | {"organ": "colon"}])  # fmt: skip
    facets = [q.facets for q in read(root).questions if q.facets["format"] == "free_text"]
    assert [(each.get("diameter"), each.get("hu_contrast")) for each in facets] == [
        *[("2-4 cm", "25-50 HU")] * 3,
        (None, None),
    ]


def test_diameters_may_come_from_the_table_of_abdomen_atlas(root: Path) -> None:
    write(root, "AbdomenAtlas3.0MiniWithMeta.csv", [
        {"BDMAP ID": "BDMAP_00000001", "largest pancreatic lesion diameter (cm)": 1.5,
         "largest liver lesion diameter (cm)": 0.0}])  # fmt: skip
    row = V1_ROW | {"question_subtype": "pancreatic lesion existence", "answer": "Yes"}
    assert free(root, **row | {"organ": "pancreas"}).facets["diameter"] == "<2 cm"
    assert "diameter" not in free(root, **row | {"organ": "liver"}).facets


@pytest.mark.parametrize(
    ("column", "value", "facet", "level"),
    [
        ("sex", "male", "sex", "M"),
        ("sex", "unknown", "sex", None),
        ("age", "", "age", None),
        ("age", "nan", "age", None),
        ("age", 9, "age", "0-9"),
        ("scanner", "GE MEDICAL SYSTEMS", "scanner", "GE"),
        ("scanner", "Toshiba", "scanner", "other"),
        ("contrast", "non-contrast", "phase", "plain"),
        ("organ", "Left_Kidney", "organ", "left kidney"),
    ],
)
def test_facets_of_patient_and_scan(root: Path, column: str, value: object, facet: str, level: str | None) -> None:
    assert free(root, **{column: value}).facets.get(facet) == level


def test_facets_are_shared_but_never_mixed_up(root: Path) -> None:
    rows = [V1_ROW | {"scanner": "x", "contrast": ""}, V1_ROW | {"scanner": "", "contrast": "x"}, V1_ROW]
    write(root, "questions.csv", [*rows, V1_ROW])
    facets = [q.facets for q in read(root).questions if q.facets["format"] == "free_text"]
    assert [(each.get("scanner"), each.get("phase")) for each in facets[:3]] == [
        ("other", None), (None, "other"), ("Siemens", "venous")]  # fmt: skip
    assert facets[2] is facets[3]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("leaderboard.csv", b"model,score\nx,1\n", "wanted a .csv, .parquet"),
        ("a.json", b"{", r"a\.json: a damaged table"),
        ("a.jsonl", b"{}\n{", "wanted a .csv"),
        ("a.parquet", b"PAR1", r"a\.parquet: a damaged parquet file"),
        ("a.csv", b"image_id,question\n\xff,\xfe\n", r"a\.csv: a damaged table"),
    ],
)
def test_folders_without_questions_and_damaged_tables_are_refused(
    root: Path, name: str, content: bytes, message: str
) -> None:
    (root / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(root)


@given(st.floats(-1e9, 1e9), st.sampled_from(["", " cm", " cm^3", " cm³", " HU", " cc", "%", "."]))
def test_numbers_survive_their_unit(value: float, unit: str) -> None:
    written = f"{value:.3f}"
    found = number_and_unit(f"about {written}{unit}" if unit != "." else f"It is {written}")
    assert found is not None
    assert found.value == float(written)
    assert (found.unit or "") == (unit.strip() if unit != "." else "")


@given(st.text(max_size=40))
def test_any_answer_is_read_or_refused(answer: str) -> None:
    found = number_and_unit(answer)
    assert found is None or found.text.strip()


@given(st.one_of(st.none(), st.text(max_size=10), st.floats(), st.integers(), st.booleans()))
def test_cells_become_text_without_white_space(value: Any) -> None:
    assert text(value) == text(value).strip()
