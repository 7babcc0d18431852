"""Tests headers that are nearly what medtune knows: nothing that the user wrote is dropped in silence."""

from pathlib import Path

import pytest

from medtune.data.raw.source import TableOptions
from tests.benchmarks.vqa.own_data import read_text


@pytest.mark.parametrize(
    ("header", "role", "column", "meant"),
    [
        ("image,qestion,answer,patient", "question", "qestion", "question"),
        ("image,question,answer,patiant", "patient", "patiant", "patient"),
        ("image,question,answer,Patiant ID", "patient", "Patiant ID", "patient_id"),
        ("image,question,anwser,patient", "answer", "anwser", "answer"),
        ("image,question,anwser,category", "answer", "anwser", "answer"),
        ("Bild,Farge,Antwort,Patient", "question", "Farge", "frage"),
        ("imgae,question,answer,patient", "image", "imgae", "image"),
        ("image,question,answer,opitons", "options", "opitons", "options"),
        ("image,question,answer,splitt", "split", "splitt", "split"),
    ],
)
def test_a_misspelt_column_is_refused_with_what_was_meant(
    tmp_path: Path, header: str, role: str, column: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=rf"data\.csv: no column holds the {role}, .* {column!r}") as caught:
        read_text(tmp_path, f"{header}\nus_0.png,a,b,c\n")
    assert f"Did you mean {meant!r}?" in str(caught.value)
    assert f"--columns {role}={column!r}" in str(caught.value)
    assert f"--columns {role}= " in str(caught.value)


def test_a_column_is_what_the_user_says_it_is(tmp_path: Path) -> None:
    text = "image,question,answer,patiant\nus_0.png,a,b,P1\nus_1.png,a,d,P2\n"
    assert read_text(tmp_path, text, TableOptions(columns={"patient": "patiant"})).stands_for_patient == "patient"
    left_out = read_text(tmp_path, text, TableOptions(columns={"patient": ""}))
    assert left_out.stands_for_patient == "image"
    assert "ignored columns: patiant" in left_out.notes


def test_all_misspelt_columns_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'anwser'.*'patiant'"):
        read_text(tmp_path, "image,question,anwser,patiant\nus_0.png,a,b,c\n")


@pytest.mark.parametrize(
    "column",
    [
        *(
            "Abteilung",
            "ward",
            "scanner",
            "Patient Name",
            "patient_age",
            "patent",
            "marks",
            "state",
            "slit",
            "Farbe",
            "Bildnr",
        ),
        *("question_type", "image_width", "volumen", "start_date", "position", "scans", "class_weight", "pid", "tasks"),
    ],
)
def test_a_column_with_an_ordinary_name_is_no_misspelling(tmp_path: Path, column: str) -> None:
    table = read_text(tmp_path, f"image,question,answer,{column}\nus_0.png,a,b,c\nus_1.png,a,d,e\n")
    assert len(table.questions) == 2


def test_what_is_said_otherwise_needs_no_column(tmp_path: Path) -> None:
    text = "image,qestion,answer\nus_0.png,a,b\nus_1.png,a,d\n"
    assert read_text(tmp_path, text, TableOptions(question="Why?")).questions[0].text == "Why?"
    unanswered = read_text(tmp_path, "image,question,anwser\nus_0.png,a,b\n", TableOptions(unanswered=True))
    assert len(unanswered.questions) == 1
