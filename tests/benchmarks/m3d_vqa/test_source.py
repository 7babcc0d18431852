"""Tests the reader of M3D-VQA: both formats of a row, spellings, rejects, and the meaning of volumes' values."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medtune.benchmarks import find_source
from medtune.benchmarks.m3d_vqa.sources.m3d_vqa import SPELLINGS
from medtune.data.media.volumes.formats.scaled_array import MEANING_FILE
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.m3d import M3DTransform
from medtune.data.prepared.read import open_prepared
from medtune.data.raw.source import SourceTable
from medtune.data.types import MediaRef, Question
from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.examples.m3d_vqa import COLUMNS

Rows = list[dict[str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_example("m3d_vqa", tmp_path / "raw")
    return tmp_path / "raw"


def read(root: Path) -> SourceTable:
    return find_source("m3d_vqa").read(root, 0, root)


def change(
    root: Path, edit: Callable[[Rows], object], *, name: str = "test", columns: tuple[str, ...] = COLUMNS
) -> None:
    """Edits the rows of a table; `columns` renames them."""
    file = root / "M3D-VQA" / f"M3D_VQA_{name}.csv"
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    edit(rows)
    with file.open("w", encoding="utf-8-sig", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(columns)
        writer.writerows([row[column] for column in COLUMNS] for row in rows)


def test_a_row_gives_a_question_with_choices_and_one_without(root: Path) -> None:
    table = read(root)
    assert not table.rejects
    assert Counter(q.facets["format"] for q in table.questions) == {"multi_choice": 90, "free_text": 90}
    assert Counter(q.facets["task"] for q in table.questions) == dict.fromkeys(
        ("plane", "phase", "organ", "abnormality", "location"), 36
    )
    assert Counter(q.split for q in table.questions) == {"train": 90, "val": 50, "test": 40}
    plane, phase, organ = (
        next(q for q in table.questions if q.options and q.facets["task"] == t) for t in ("plane", "phase", "organ")
    )
    assert (plane.options, plane.answer) == (("Axial", "Sagittal", "Coronal", "Oblique"), "Axial")
    assert (phase.options, phase.answer) == (("Yes", "No"), "No")
    assert "None" in organ.options
    free = next(q for q in table.questions if not q.options)
    assert (free.answer, free.answer_kind, free.media_id) == ("Axial", "text", plane.media_id)
    assert len({q.patient_id for q in table.questions}) == 12 < len(table.media)
    assert "values 0 to 1 are taken as -160 to 240 HU" in table.notes[0]


@pytest.mark.parametrize(
    "columns",
    [
        tuple(column.lower().replace(" ", "_") for column in COLUMNS),
        tuple(column.upper() for column in COLUMNS),
        tuple(f" {column.replace(' ', '  ')} " for column in COLUMNS),
        tuple(column.replace(" ", "-") for column in COLUMNS),
    ],
)
def test_columns_in_other_spellings(root: Path, columns: tuple[str, ...]) -> None:
    before = read(root).questions
    change(root, lambda rows: None, columns=columns)
    assert read(root).questions == before


@pytest.mark.parametrize("alias", SPELLINGS)
def test_every_other_spelling_of_a_column_gives_the_same_questions(root: Path, alias: str) -> None:
    released = SPELLINGS[alias].replace("_", " ").title()

    # The letter alone says which choice is right.
    change(root, lambda rows: [row.update({"Answer": f"{row['Answer']}, clearly"}) for row in rows])
    before, file = read(root).questions, root / "M3D-VQA" / "M3D_VQA_test.csv"
    written = file.read_text("utf-8-sig")

    def renamed(name: str) -> Sequence[Question]:
        file.write_text(written.replace(released, name, 1), "utf-8")
        return read(root).questions

    assert renamed(alias) == before
    assert len(renamed(f"{alias} 2")) < len(before)


@pytest.mark.parametrize(
    "edits",
    [
        {"Answer Choice": "b."},
        {"Answer Choice": " (B) "},
        {"Answer Choice": ""},
        {"Question Type": "3.0"},
        {"Choice D": "nan"},
    ],
)
def test_cells_in_other_spellings(root: Path, edits: dict[str, str]) -> None:
    change(root, lambda rows: rows[2].update(edits))
    table = read(root)
    assert not table.rejects
    (question,) = [q for q in table.questions if q.id == "M3D-VQA/M3D_VQA_test.csv 3 multi_choice"]
    assert (question.answer, question.facets["task"]) == ("Liver", "organ")


def test_the_letter_counts_where_the_words_differ(root: Path) -> None:
    change(root, lambda rows: rows[2].update({"Answer": "Liver, as expected"}))
    table = read(root)
    assert not table.rejects
    assert "1 questions whose answer in words is not the choice of its letter, which counts" in table.notes


@pytest.mark.parametrize(
    ("edits", "lost", "reason"),
    [
        ({"Answer Choice": "E"}, 1, "line 3, field 'Answer Choice': 'E' is none of the choices A, B, C, D"),
        ({"Choice D": "NA", "Answer Choice": "D"}, 1, "'D' is none of the choices A, B, C"),
        ({"Choice B": "Spleen"}, 1, "field 'Choice A': wanted two or more different choices, got 3"),
        ({"Answer": ""}, 1, "field 'Answer': wanted an answer, the cell is empty"),
        ({"Question": " "}, 2, "field 'Question': wanted a question"),
        ({"Question Type": "6"}, 2, "field 'Question Type': wanted a number from 1 to 5, got '6'"),
        ({"Image Path": "M3D_Cap_npy/none.npy"}, 2, "field 'Image Path': its volume is not in the folder"),
        ({"Image Path": "../other.npy"}, 2, "field 'Image Path': wanted the path of a .npy file in the folder"),
        ({"Image Path": "scan.png"}, 2, "field 'Image Path': wanted the path of a .npy file in the folder"),
    ],
)
def test_a_wrong_row_is_rejected_alone(root: Path, edits: dict[str, str], lost: int, reason: str) -> None:
    change(root, lambda rows: rows[2].update(edits))
    table = read(root)
    assert len(table.rejects) == lost
    assert len(table.questions) == 180 - lost
    assert reason in str(table.rejects[0])


def test_missing_volumes_are_listed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(root, lambda rows: rows[0].update({"Image Path": "M3D_Cap_npy/ct_case/7/a.npy"}))
    assert main(["prepare", "m3d_vqa", "--from", str(root), "--list-missing"]) == 0
    assert capsys.readouterr().out.startswith("M3D_Cap_npy/ct_case/7/a.npy\thttps://")


def test_the_part_of_test_is_left_out_beside_test_and_read_alone(root: Path) -> None:
    folder = root / "M3D-VQA"
    (folder / "M3D_VQA_test5k.csv").write_bytes((folder / "M3D_VQA_test.csv").read_bytes())
    table = read(root)
    assert len(table.questions) == 180
    assert "the table test5k is a part of test, and was left out" in table.notes
    (folder / "M3D_VQA_test.csv").unlink()
    assert Counter(q.split for q in read(root).questions)["test"] == 40


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"volumes\.json: there is no such file.*no Hounsfield units.*size of a voxel.*The arrays state neither"),
        ("{", "broken JSON"),
        ("[]", "wanted an object like"),
        ({"spacing_mm": [1, 1, 1]}, "field 'hu_window': wanted a list of 2 numbers, it is missing: values from 0 to 1"),
        ({"hu_window": [0, 1]}, "field 'spacing_mm': wanted a list of 3 numbers, it is missing: without the size"),
        ({"hu_window": [240, -160], "spacing_mm": [1, 1, 1]}, "field 'hu_window': wanted the lower value first"),
        ({"hu_window": [-160, "240"], "spacing_mm": [1, 1, 1]}, "field 'hu_window': wanted a list of 2 numbers, got"),
        ({"hu_window": [0, 1], "spacing_mm": [1, 0, 1]}, "field 'spacing_mm': wanted three sizes above 0"),
        (
            {"hu_window": [0, 1], "spacing_mm": [1, 1, 1], "orientation": "LLS"},
            "field 'orientation': wanted three letters",
        ),
        ({"hu_windw": [0, 1]}, "unknown field 'hu_windw'. Did you mean 'hu_window'"),
    ],
)
def test_volumes_without_a_stated_meaning_are_refused(root: Path, content: object, message: str) -> None:
    if content is None:
        (root / MEANING_FILE).unlink()
    else:
        (root / MEANING_FILE).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        read(root)
    assert str(root / MEANING_FILE) in str(caught.value)


def test_a_prepared_volume_is_nifti_in_hu_with_spacing_and_m3d_sees_its_array_again(root: Path, tmp_path: Path) -> None:
    assert main(["prepare", "m3d_vqa", "--from", str(root), "--out", str(tmp_path / "out")]) == 0
    group = open_prepared(tmp_path / "out").groups("test")[0]
    assert group.media[0].path.name.endswith(".nii.gz")
    volume = load_volume(group.media[0])
    assert volume.hu_IJK.dtype == np.int16
    assert (volume.hu_IJK.shape, volume.spacing_mm, volume.orientation) == ((10, 12, 4), (0.8, 0.8, 5.0), "LPS")
    assert (int(volume.hu_IJK.min()), int(volume.hu_IJK.max())) == (-160, 240)
    arrays = [np.load(path) for path in root.rglob("*.npy")]
    (array,) = [each for each in arrays if np.abs(400 * each[0].transpose(2, 1, 0) - 160 - volume.hu_IJK).max() < 0.51]
    # M3D works on eight bits, which cut off: two grey values, and half a HU of ours.
    seen = M3DTransform(size=(4, 12, 10))(volume)
    assert np.abs(seen - array).max() < 2.5 / 255


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 4, 4, 4), np.float32), "wanted one volume of numbers"),
        (np.full((1, 4, 4, 4), 300.0, np.float32), "wanted values from 0 to 1, got 300 to 300"),
        (np.full((1, 4, 4, 4), np.nan, np.float32), "wanted values from 0 to 1, got nan"),
        (np.array([{"a": 1}]), "not a whole array"),
        (None, "not a whole array"),
    ],
)
def test_arrays_that_are_no_volumes_are_refused(root: Path, values: Any, message: str) -> None:
    path = root / "odd.npy"
    if values is None:
        path.write_bytes(b"\x93NUMPY")
    else:
        np.save(path, values, allow_pickle=True)
    with pytest.raises(ValueError, match=message) as caught:
        load_volume(MediaRef(path, kind="volume"))
    assert str(path) in str(caught.value)


def test_a_broken_array_costs_its_own_questions(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next(root.rglob("*.npy")).write_bytes(b"broken")
    arguments = ["prepare", "m3d_vqa", "--from", str(root), "--out", str(tmp_path / "out"), "--max-rejected", "0.5"]
    assert main(arguments) == 0
    assert "rejected 10 of 180 questions" in capsys.readouterr().out
    assert "not a whole array" in (tmp_path / "out" / "rejects.jsonl").read_text()
