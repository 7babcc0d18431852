"""Tests that `predict` answers the rows whose media can be read, and says of each other row why it cannot."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.trainer.commands.cli import main
from tests.data.media.volumes.synthetic_volumes import series
from tests.trainer.experiment.test_videos_and_scans import write_video
from tests.trainer.own_data.forms import CT, VIDEO, picture


def _predicted(recipe: tuple[str, ...], origin: Path, out: Path) -> dict[str, dict[str, str]]:
    said = ["--question", "Is it there?", "--options", "yes", "no", "--set", *recipe[1:], "eval.readings=[likelihood]"]
    assert main(["predict", recipe[0], "--from", str(origin), "--out", str(out), *said]) == 0
    with out.open(newline="", encoding="utf-8") as file:
        return {row["media"] or row["id"]: row for row in csv.DictReader(file)}


def _films(folder: Path) -> dict[str, str]:
    folder.mkdir()
    for number, name in enumerate(("good_0.mp4", "good_1.mp4", "cut.mp4", "holes.mp4")):
        write_video(folder / name, 0.5, number)
    (folder / "cut.mp4").write_bytes((folder / "cut.mp4").read_bytes()[:-900])
    content = bytearray((folder / "holes.mp4").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 600] = np.random.default_rng(0).bytes(600)
    (folder / "holes.mp4").write_bytes(content)
    (folder / "empty.mp4").write_bytes(b"")
    return {"cut.mp4": "damaged|cut short", "holes.mp4": r"damaged", "empty.mp4": "the file is empty"}


def _scans(folder: Path) -> dict[str, str]:
    folder.mkdir()
    values_IJK = np.random.default_rng(0).integers(-1000, 900, (16, 16, 12)).astype(np.int16)
    for name in ("good_0", "good_1", "cut"):
        write_nifti(folder / f"{name}.nii.gz", values_IJK, np.diag([2.0, 2, 5, 1]))
    (folder / "cut.nii.gz").write_bytes((folder / "cut.nii.gz").read_bytes()[:-3000])
    series(folder / "gap", values_IJK, left_out=(5,))
    return {"cut.nii.gz": "the voxels cannot be read", "gap": "1 slices missing"}


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "write"), [(VIDEO, _films), (CT, _scans)])
def test_rows_whose_media_cannot_be_read_have_their_reason_and_others_are_answered(
    recipe: tuple[str, ...], write: object, tmp_path: Path
) -> None:
    assert callable(write)
    reasons: dict[str, str] = write(folder := tmp_path / "new")
    rows = _predicted(recipe, folder, tmp_path / "answers.csv")
    answered = {name for name, row in rows.items() if row["answer"]}
    assert {name.partition(".")[0] for name in answered} == {"good_0", "good_1"}
    others = [row["error"] for name, row in rows.items() if name not in answered]
    assert len(others) == len(reasons)
    for name, why in reasons.items():
        (error,) = (each for each in others if name in each)
        assert re.search(why, error)


@pytest.mark.slow
def test_rows_of_another_kind_than_the_model_reads_have_their_reason(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    _scans(folder)
    shutil.rmtree(folder / "gap")
    picture(folder / "us.png", 0)
    rows = _predicted(("nano_busi_lora",), folder, tmp_path / "answers.csv")
    assert rows["us.png"]["answer"]
    assert json.dumps(rows).count("the row shows a volume; the model reads images only") == 2
