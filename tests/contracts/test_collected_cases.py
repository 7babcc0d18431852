"""Takes the collected small inputs through `medtune prepare` and `medtune score`, as their README says."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS
from medtune.trainer.commands.cli import main
from tests.golden.files import COLLECTED

NAMES = ("iodine", "gadolinium", "null", "none")
TABLES = {
    "severity.csv": ({"text"}, {()}, {"no", "mild", "moderate", "severe"}, 60),
    "birads.csv": ({"text"}, {()}, {"1", "2", "3", "4A", "4B", "5"}, 60),
    "null_option.csv": ({"choice"}, {NAMES}, {"iodine", "gadolinium", "none"}, 10),
    "decimal_comma.csv": ({"number"}, {()}, None, 10),
}
"""For each table the kinds of its questions, their options, their answers and their number."""
REFUSED = {
    "29_black_on_transparent.png": "laid over black, the picture is of one colour",
    "07_width0.dcm": "WindowWidth (0028,1051) is 0",
}


def prepared(table: Path, images: Path, out: Path, *more: str) -> Path:
    assert main(["prepare", "vqa", "--from", str(table), "--images", str(images), "--out", str(out), *more]) == 0
    return out


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_one_kind_for_each_question(tmp_path: Path, name: str) -> None:
    kinds, options, answers, count = TABLES[name]
    table = Path(shutil.copy(COLLECTED / "tables" / name, tmp_path))
    made = open_prepared(prepared(table, tmp_path, tmp_path / "out", "--without-media"))
    asked = [question for split in SPLITS for question in made.questions(split)]
    assert {question.answer_kind for question in asked} == kinds
    assert {question.options for question in asked} == options
    assert answers is None or {question.answer for question in asked} == answers
    assert len(asked) == count


def test_replies_with_decimal_commas_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = COLLECTED / "tables" / "decimal_comma_replies"
    out = prepared(given / "u.csv", given, tmp_path / "out")
    capsys.readouterr()
    said = ["score", "vqa", "--predictions", str(given / "pred.jsonl"), "--questions", str(out)]
    assert main([*said, "--out", str(tmp_path / "scores")]) == 0
    assert any(line.split()[:2] == ["pred", "1.000"] for line in capsys.readouterr().out.splitlines())


def test_pictures_are_shown_as_they_are_or_refused_by_name(tmp_path: Path) -> None:
    folders = (COLLECTED / "images", COLLECTED / "dicoms")
    files = [file for folder in folders for file in folder.iterdir() if file.suffix != ".npy"]
    for file in files:
        shutil.copy(file, tmp_path)
    rows = [[file.name, "What is it?", "a cyst", file.name, "test"] for file in files]
    with (tmp_path / "data.csv").open("w", newline="") as text:
        csv.writer(text).writerows([["image", "question", "answer", "patient", "split"], *rows])
    out = prepared(tmp_path / "data.csv", tmp_path, tmp_path / "out", "--max-rejected", "0.5")
    rejects = [json.loads(line) for line in (out / "rejects.jsonl").read_text("utf-8").splitlines()]
    wrong = {rows[each["row"] - 1][0]: each["reason"] for each in rejects}
    assert wrong.keys() == REFUSED.keys()
    assert all(wrong[name].startswith(reason) for name, reason in REFUSED.items())
    truth_HW = np.load(COLLECTED / "images" / "truth.npy").astype(int)
    groups = open_prepared(out).groups("test")
    shown = [np.asarray(PIL.Image.open(group.media[0].path).convert("L")).astype(int) for group in groups]
    true = [group for group, shown_HW in zip(groups, shown, strict=True) if np.abs(shown_HW - truth_HW).max() <= 1]
    # The two files of DICOM show another picture.
    assert sum(len(group.questions) for group in true) == len(files) - len(REFUSED) - 2
