"""Tests tables that hospitals have: labels, places of options, repeated rows, Windows files, patients in paths."""

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from pydicom.data import get_testdata_file

from medtune.data.raw.source import SourceTable, TableOptions
from tests.benchmarks.vqa.own_data import pictures, read, read_text
from tests.data.media.videos.synthetic_videos import cine, counted


def _kinds(table: SourceTable) -> list[tuple[str, tuple[str, ...]]]:
    assert not table.rejects
    return [(question.answer, question.options) for question in table.questions]


@pytest.mark.parametrize(
    ("labels", "said", "options", "first"),
    [
        ("b9 mal b9 mal norm norm", {}, ("b9", "mal", "norm"), "b9"),
        ("0 1 1 0 1 1", {}, ("0", "1"), "0"),
        ("0 1 1 0 1 1", {"answers": {"0": "healthy", "1": "ill"}}, ("healthy", "ill"), "healthy"),
        ("0 1 1 0 1 1", {"answers": {"0": "no", "1": "yes"}}, ("yes", "no"), "no"),
        ("0 1 1 0 1 1", {"options": ("healthy", "ill")}, ("healthy", "ill"), "healthy"),
        ("mild severe no mild no no", {"options": ("no", "mild", "severe")}, ("no", "mild", "severe"), "mild"),
        ("10 2 10 2 2 10", {}, ("2", "10"), "10"),
        ("Nein ja nein Ja Ja ja", {"answers": {"ja": "yes", "nein": "no"}}, ("yes", "no"), "no"),
    ],
)
@pytest.mark.parametrize("header", ["label", "diagnosis"])
def test_the_values_of_a_column_of_labels_are_the_options(
    tmp_path: Path, labels: str, said: dict[str, Any], options: tuple[str, ...], first: str, header: str
) -> None:
    rows = [f"us_{n}.png,{label},P{n}" for n, label in enumerate(labels.split())]
    table = read_text(tmp_path, "\n".join([f"image,{header},patient", *rows]), TableOptions(**said))
    assert _kinds(table)[0] == (first, options)
    assert {q.text for q in table.questions} == {"Which of these classes does the picture belong to?"}
    assert {q.options for q in table.questions} == {options}


def test_thirty_classes_are_shown_ten_at_a_time(tmp_path: Path) -> None:
    rows = [f"us_{n % 6}.png,class {n % 30}" for n in range(90)]
    table = read_text(tmp_path, "\n".join(["image,label", *rows]), TableOptions(keep="all"))
    assert {len(options) for _, options in _kinds(table)} == {10}
    assert all(answer in options for answer, options in _kinds(table))


@pytest.mark.parametrize("answers", ["3.5 4.1 2.8", "round dark bright"])
def test_answers_that_are_no_labels_need_a_question(tmp_path: Path, answers: str) -> None:
    rows = [f"us_{n}.png,{answer}" for n, answer in enumerate(answers.split())]
    with pytest.raises(ValueError, match=r"wanted a column with the question.* are: image, answer\..*--options"):
        read_text(tmp_path, "\n".join(["image,answer", *rows]))


def test_labels_that_are_all_the_same_are_named_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="as the answers are all the same"):
        read_text(tmp_path, "image,label\nus_0.png,ill\nus_1.png,ill\nus_2.png,ill")


@pytest.mark.parametrize(
    ("answers", "first", "wanted"),
    [("0 1 2", None, "a b c"), ("3 1 2", None, "c a b"), ("2 1 2", 1, "b a b"), ("1 0 1", 0, "b a b")],
)
def test_places_of_options_are_counted_from_where_only_one_way_fits(
    tmp_path: Path, answers: str, first: int | None, wanted: str
) -> None:
    rows = [f"us_{n}.png,which?,{answer},a,b,c" for n, answer in enumerate(answers.split())]
    text = "\n".join(["image,question,answer,A,B,C", *rows])
    assert [answer for answer, _ in _kinds(read_text(tmp_path, text, TableOptions(index_from=first)))] == wanted.split()


@pytest.mark.parametrize("answers", ["1 2 1", "0 3 1", "0 b 1"])
def test_places_that_fit_both_ways_or_none_are_rejected_with_the_flag(tmp_path: Path, answers: str) -> None:
    rows = [f"us_{n}.png,which?,{answer},a,b,c" for n, answer in enumerate(answers.split())]
    table = read_text(tmp_path, "\n".join(["image,question,answer,A,B,C", *rows]))
    assert "--index-from 0, or 1" in str(table.rejects[0])


@pytest.mark.parametrize(
    "cell",
    ["a b;c;null", "a b|c|null", "a b / c / null", "a b/c/null", '"a b, c, null"', "a b、c、null", "a b；c；null"],
)
def test_options_between_any_usual_separator(tmp_path: Path, cell: str) -> None:
    table = read_text(tmp_path, f"image,question,options,answer\nus_0.png,?,{cell},null\nus_1.png,?,a,a\n")
    assert (table.questions[0].answer, table.questions[0].options) == ("null", ("a b", "c", "null"))
    assert "Options of one cell stand between line breaks, tabs, or one of | ;" in str(table.rejects[0])


_REPEATS = [("0", "yes"), ("0", "Yes."), ("1", "yes"), ("1", "no"), ("2", "no"), ("2", "no"), ("3", "no")]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (None, ["yes", "no", "no"]),
        ("first", ["yes", "yes", "no", "no"]),
        ("all", [a.strip(".").lower() for _, a in _REPEATS]),
    ],
)
def test_repeats_are_counted_and_contradictions_are_named(tmp_path: Path, keep: Any, kept: list[str]) -> None:
    rows = [f"us_{image}.png,Is it so?,{answer}" for image, answer in _REPEATS]
    table = read_text(tmp_path, "\n".join(["image,question,answer", *rows]), TableOptions(keep=keep))
    assert [question.answer for question in table.questions] == kept
    assert {question.media_id for question in table.questions} == {*table.media}
    said = "\n".join(table.notes)
    assert "duplicates: 2 rows" in said
    assert re.search("contradictions: 1 questions .*data.csv 4 and 5", said)


def test_descriptions_of_one_image_in_other_words_stay(tmp_path: Path) -> None:
    table = read_text(tmp_path, "image,question,answer\nus_0.png,Describe it.,a cyst\nus_0.png,Describe it.,round\n")
    assert len(table.questions) == 2


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("cp1252", "Größe der Läsion"),
        ("cp1250", "zmiana złośliwa, wątroba"),
        ("cp1251", "злокачественное образование"),
        ("cp1253", "κακοήθης όγκος ήπαρ"),
        ("cp1254", "karaciğer taşı ışık"),
        ("gb18030", "肝脏在哪里？恶性肿瘤"),
        ("cp932", "肝臓はどこですか、カルテ"),
        ("utf-16", "Größe 肝"),
        ("utf-16-le", "Größe"),
        ("utf-8-sig", "Größe 肝"),
    ],
)
def test_a_csv_file_of_a_windows_pc_is_told_from_its_bytes(tmp_path: Path, encoding: str, word: str) -> None:
    pictures(tmp_path, 1)
    (tmp_path / "data.csv").write_bytes(f'image,question,answer\nus_0.png,"{word}",x\n'.encode(encoding))
    table = read(tmp_path / "data.csv")
    assert table.questions[0].text == word
    assert any("in the code page" in note for note in table.notes) == (not encoding.startswith("utf"))


def test_a_workbook_is_read_as_its_first_sheet_with_rows(tmp_path: Path) -> None:
    names, book = pictures(tmp_path, 4), openpyxl.Workbook()
    book.create_sheet("Bilder").append(["image", "label", "patient", None])
    for name, label, patient in zip(names, (0, 1.0, 1, 0), (7, 8.0, "9", 10), strict=True):
        book["Bilder"].append([name, label, patient])
        book["Bilder"].append([])
    book.create_sheet("Legende").append(["a"])
    book["Legende"].append(["b"])
    book.save(tmp_path / "data.xlsx")
    table = read(tmp_path / "data.xlsx")
    assert [answer for answer, _ in _kinds(table)] == ["0", "1", "1", "0"]
    assert [question.patient_id for question in table.questions] == ["7", "8", "9", "10"]
    assert "data.xlsx: the sheet 'Bilder' is read; 1 other sheets with rows are not" in table.notes


def test_a_patient_in_the_names_of_files(tmp_path: Path) -> None:
    for name in ("12_1", "12_2", "13_1", "x"):
        pictures(tmp_path / "scans", 1)
        (tmp_path / "scans" / "us_0.png").rename(tmp_path / "scans" / f"{name}.png")
    text = "image,label\n" + "".join(f"scans/{name}.png,{name[-1]}\n" for name in ("12_1", "12_2", "13_1", "x"))
    table = read_text(tmp_path, text, TableOptions(patient=re.compile(r"(\d+)_"), question="?"))
    assert [question.patient_id for question in table.questions] == ["12", "12", "13"]
    assert table.stands_for_patient == "patient"
    assert "finds no patient in the path" in table.rejects[0].reason


@pytest.mark.parametrize(
    "layout", ["{label}/{patient}/{n}.png", "{patient}/{label}/{n}.png", "{label}/{patient}_{n}.png"]
)
def test_patients_in_folders_of_classes(tmp_path: Path, layout: str) -> None:
    for n in range(12):
        path = tmp_path / "raw" / layout.format(label="bm"[n % 2], patient=f"P{n // 2}", n=n)
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures(tmp_path / "made", 12)
        (tmp_path / "made" / f"us_{n}.png").rename(path)
    pattern = None if "/{n}" in layout else re.compile("P[0-9]")
    table = read(tmp_path / "raw", TableOptions(patient=pattern), name="image_folder")
    assert {(question.answer, question.patient_id) for question in table.questions} == {
        (label, f"P{n}") for label in "bm" for n in range(6)
    }
    assert table.stands_for_patient == "patient"


def test_folders_of_classes_are_read_beside_strays_which_are_counted(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for label in ("none", "mild"):
        pictures(raw / label, 3)
    for place in (raw, raw / "mild"):
        shutil.copy(str(get_testdata_file("DICOMDIR", download=False)), place / "DICOMDIR")
    (raw / "mild" / "empty.png").write_bytes(b"")
    (raw / "mild" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    shutil.copy(str(get_testdata_file("reportsi.dcm", download=False)), raw / "mild" / "report.dcm")
    shutil.copy(str(get_testdata_file("CT_small.dcm", download=False)), raw / "none" / "IM0001")
    cine(raw / "none" / "cine.dcm", counted(3)[..., 0])
    (raw / "papers").mkdir()
    (raw / "papers" / "article.pdf").write_bytes(b"%PDF")
    table = read(raw, name="image_folder")
    assert Counter(question.answer for question in table.questions) == {"none": 5, "mild": 3}
    assert not table.rejects
    kinds = Counter((ref.path.suffix, ref.kind) for items in table.media.values() for ref in items)
    assert kinds == {(".png", "image"): 6, ("", "image"): 1, (".dcm", "video"): 1}
    for note in (
        "rows left out, an empty file: 1", "rows left out, a link to a file that is not there: 1",
        "rows left out, a DICOM file without a picture: 1", "left out 1 folders that hold no image, film or scan",
        "skipped 2 files that are no media: hidden, of the system, or texts",
    ):  # fmt: skip
        assert note in table.notes
