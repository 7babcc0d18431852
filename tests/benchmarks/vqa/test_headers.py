"""Tests headers that are nearly what medtune knows: nothing that the user wrote is dropped in silence."""

from pathlib import Path

import pytest

from medtune.benchmarks.vqa.columns import check_spelling, columns_of
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
        ("image,question,answer,splt", "split", "splt", "split"),
        ("image,question,answer,patinet_id,unts", "patient", "patinet_id", "patient_id"),
        ("image,question,answer,unts", "unit", "unts", "units"),
        ("image,question,answer,pacent", "patient", "pacent", "patient"),
        ("image,question,answer,Ptaeint", "patient", "Ptaeint", "patient"),
        ("image,question,answer,opptoins", "options", "opptoins", "options"),
        ("image,qeustoin,answer,patient", "question", "qeustoin", "question"),
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


ORDINARY = """
    age sex gender race height weight bmi site ward hospital department scanner vendor modality sequence protocol series
    view projection plane phase contrast contrast_agent slice_thickness kvp mas echo_time repetition_time field_strength
    organ side laterality location quadrant mass nodule lesion_size size_mm diameter grade stage state birads tirads
    lirads pirads gleason histology biopsy resected treated suspect opinions impression findings report notes remark
    comment physician radiologist reader observer rater date acquisition_date study_date exam_date admission slit splint
    slit_lamp inpatient outpatient patience object project section gestation_weeks parity trimester subtest actions
    motions columns class_weight confidence probability score rating position puncture posture fracture payment chances
    cohort centre country device probe frequency depth gain portal_vein artery repeated reflected treatment outcome
    """
"""Names of columns in tables of hospitals and of public medical sets."""


def test_a_medical_column_is_no_misspelling() -> None:
    for column in ORDINARY.split():
        for header in (["image", "question", "answer"], ["video", "question", "options", "answer"]):
            check_spelling(columns_of([*header, column], {}, where="data.csv"), (), where="data.csv")


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


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("A,Bb", r"'A' is an option by its name, and no column is called B"),
        ("A", r"'A' is an option by its name, and no column is called B"),
        ("A,C", r"'A' and 'C' are options by their names, and no column is called B"),
        ("A,B,D", r"'A' and 'B' and 'D' are options by their names, and no column is called C"),
        ("B,C", r"'B' and 'C' are options by their names, and no column is called A"),
        ("Choice B,Choice C", r"'Choice B' and 'Choice C' are options by their names, and no column is called A"),
    ],
)
def test_letters_with_a_gap_are_refused(tmp_path: Path, columns: str, message: str) -> None:
    cells = ",liver" * len(columns.split(","))
    text = f"image,question,answer,{columns}\nus_0.png,Which organ?,a{cells}\n"
    with pytest.raises(ValueError, match=rf"data\.csv: {message}\..*--columns 'letters=") as caught:
        read_text(tmp_path, text)
    assert "(letters= for none)" in str(caught.value)
    assert read_text(tmp_path, text, TableOptions(columns={"letters": ""})).questions[0].options == ()


def test_a_letter_that_begins_no_options_is_a_column_like_any_other(tmp_path: Path) -> None:
    text = "image,question,answer,x,y,w,h\nus_0.png,Which organ?,liver,1,2,3,4\n"
    assert read_text(tmp_path, text).questions[0].options == ()


@pytest.mark.parametrize(
    "word",
    [
        *(
            "Möglichkeit",
            "Antwort",
            "Antwortmöglichkeit",
            "choix",
            "réponse",
            "Option",
            "opción",
            "respuesta",
            "opzione",
        ),
        *("alternativa", "opção", "optie", "antwoord", "选项", "選択肢", "Answer", "Auswahl", "proposition"),
    ],
)
def test_options_stand_in_columns_of_any_language(tmp_path: Path, word: str) -> None:
    text = f"image,question,answer,{word} A,{word}_B,{word}-C\nus_0.png,?,B,liver,colon,\n"
    table = read_text(tmp_path, text)
    assert [(question.options, question.answer) for question in table.questions] == [(("liver", "colon"), "colon")]
    assert not table.rejects


def test_what_is_printed_can_be_typed(tmp_path: Path) -> None:
    text = "image,question,answer,Kolumna A,Kolumna B\nus_0.png,?,B,liver,colon\n"
    notes = read_text(tmp_path, text).notes
    (loud,) = (note for note in notes if note.startswith("OPTIONS MAY BE MISSING: "))
    assert "'Kolumna A' and 'Kolumna B'" in loud
    assert "--columns 'letters=Kolumna A + Kolumna B'" in loud
    for typed in ("Kolumna A + Kolumna B", "Kolumna A,Kolumna B"):
        table = read_text(tmp_path, text, TableOptions(columns={"letters": typed}))
        assert table.questions[0].options == ("liver", "colon")
        assert any("letters = Kolumna A + Kolumna B" in note for note in table.notes)
    assert not any("OPTIONS" in note for note in read_text(tmp_path, text, TableOptions(columns={"letters": ""})).notes)


def test_all_missing_columns_are_named_once_in_every_known_language(tmp_path: Path) -> None:
    text = "Bilddatei,Fragestellung,Befund,Fallnummer\nus_0.png,Was?,eine Zyste,P1\n"
    with pytest.raises(ValueError, match=r"wanted a column with the question, .* and one with the answer, ") as caught:
        read_text(tmp_path, text)
    said = str(caught.value)
    for each in (
        "question, questions, query",
        "in German frage",
        "in Spanish pregunta",
        "German antwort",
        "French réponse",
    ):
        assert each in said
    assert "--columns question=NAME answer=NAME patient=NAME" in said
    assert "response, output, target" not in said
    columns = {"question": "Fragestellung", "answer": "Befund", "patient": "Fallnummer"}
    assert read_text(tmp_path, text, TableOptions(columns=columns)).questions[0].answer == "eine Zyste"
    with pytest.raises(ValueError, match=r"wanted a column with the answer, .*--columns answer=NAME"):
        read_text(tmp_path, text, TableOptions(columns={"question": "Fragestellung"}))
