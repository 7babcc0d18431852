"""Tests the reader of OmniMedVQA: two to four options, answers in words, the row with another key, and archives."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.raw.source import SourceTable
from medtune.data.types import Question
from medtune.trainer.commands.cli import main
from tests.eval.golden import recorded
from tests.examples.omnimedvqa import write_example

TABLE = "QA_information/Open-access/Invented skin.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_example(tmp_path / "raw")
    return tmp_path / "raw"


def read(root: Path) -> SourceTable:
    return find_source("omnimedvqa").read(root, 0, root.parent)


def change(root: Path, number: int, **values: object) -> None:
    """Changes a row of the table with two options; None takes a key away."""
    rows = json.loads((root / TABLE).read_text("utf-8"))
    rows[number] = {name: value for name, value in (rows[number] | values).items() if value is not None}
    (root / TABLE).write_text(json.dumps(rows), "utf-8")


def test_a_row_has_two_to_four_options_and_facets(root: Path) -> None:
    table = read(root)
    assert not table.rejects
    assert Counter(len(question.options) for question in table.questions) == {4: 6, 3: 6, 2: 6}
    assert Counter(question.facets["modality"] for question in table.questions) == {
        "X-Ray": 6,
        "Dermoscopy": 6,
        "Microscopy Images": 6,
    }
    assert {question.facets["task"] for question in table.questions} == {
        "Modality Recognition",
        "Disease Diagnosis",
        "Lesion Grading",
    }
    assert table.stands_for_patient == "image"
    assert all(question.patient_id == question.media_id for question in table.questions)


def test_golden_row_with_the_key_modality_stops_medevalkit_and_not_medtune(root: Path) -> None:
    expected = recorded("medevalkit_sets.json", "medical_vqa")["expected"]
    assert expected["omnimedvqa_row_with_key_modality"] == "KeyError"
    rows = json.loads((root / "QA_information/Open-access/Invented X-ray.json").read_text("utf-8"))
    assert "modality_type" not in rows[0]
    assert rows[0]["modality"] == "X-Ray"
    table = read(root)
    assert "1 rows state their modality in the field 'modality'" in table.notes
    assert next(q for q in table.questions if q.id == "Invented X-ray_0000").facets["modality"] == "X-Ray"


def test_answers_of_another_spelling_and_equal_options_are_counted(root: Path) -> None:
    change(root, 0, gt_answer="no.", option_A="No", option_B="Yes")
    change(root, 1, gt_answer="Yes", option_A="Yes", option_B="Yes", option_C="No")
    change(root, 2, question_id="Invented skin_0001")
    table = read(root)
    found = {question.id: question for question in table.questions}
    assert (found["Invented skin_0000"].answer, found["Invented skin_0000"].printed) == ("No", {"gt_answer": "no."})
    assert found["Invented skin_0001"].options == ("Yes", "Yes", "No")
    assert "Invented skin_0001 Invented skin.json 3" in found
    assert [note for note in table.notes if "modality" not in note] == [
        "1 answers are an option but for capitals and punctuation, which is taken",
        "1 questions have two equal options; either counts as right where it is the answer",
        "1 rows have an id that an earlier row has too",
    ]


def test_the_kits_truth_is_the_last_of_equal_options_or_the_stated_text() -> None:
    rule = find_benchmark("omnimedvqa").rules["medevalkit"]
    equal = Question("q", "m", "Is it?", ("Yes", "Yes", "No"), "Yes", "choice", "p")
    assert [rule.score([(equal, reply)])["accuracy"] for reply in ("A", "B", "C")] == [0, 1, 0]
    stated = Question("q", "m", "Is it?", ("No", "Yes"), "No", "choice", "p", printed={"gt_answer": "no."})
    # No letter reaches the stated text, and the kit cuts replies at a full stop.
    assert [rule.score([(stated, reply)])["accuracy"] for reply in ("A", "No", "no.", "A. No")] == [0, 0, 0, 0]


def test_restricted_questions_are_left_out_and_said_so(root: Path) -> None:
    shutil.copytree(root / "QA_information/Open-access", root / "QA_information/Restricted-access")
    table = read(root)
    assert len(table.questions) == 18
    assert any("the restricted-access part is left out" in note for note in table.notes)


@pytest.mark.parametrize("packed", [".", "OmniMedVQA"])
def test_the_archive_is_read_as_it_was_downloaded(packed: str, root: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    shutil.copytree(root, unpacked / packed)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.make_archive(str(copy / "OmniMedVQA"), "zip", unpacked)
    out = tmp_path / "prepared"
    assert main(["prepare", "omnimedvqa", "--from", f"hf:{copy}", "--out", str(out)]) == 0
    assert open_prepared(out).num_questions("test") == 18


def test_a_folder_without_tables_and_a_broken_table_are_refused(root: Path, tmp_path: Path) -> None:
    (root / TABLE).write_text("[{", "utf-8")
    with pytest.raises(ValueError, match=r"Invented skin.json: broken JSON"):
        read(root)
    (tmp_path / "empty" / "Images").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"wanted QA_information/Open-access/\*.json or OmniMedVQA.zip"):
        read(tmp_path / "empty")
