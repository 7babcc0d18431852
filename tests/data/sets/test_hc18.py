from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.public_set import SetTable
from medtune.data.sets import hc18


def _read(folder: Path) -> SetTable:
    return hc18.public_set().read(folder, folder)


def test_lengths_come_from_the_table(tmp_path: Path) -> None:
    hc18.public_set().write_example(tmp_path)
    frames = _read(tmp_path).frames
    assert {frame.values["pixel_size_mm"] for frame in frames} == {0.5}
    # An ellipse of half-axes 13 and 10 mm: numerical circumference.
    angle = np.linspace(0, 2 * np.pi, 100_001)
    around_mm = float(np.hypot(np.diff(13 * np.cos(angle)), np.diff(10 * np.sin(angle))).sum())
    assert frames[0].values["hc_mm"] == pytest.approx(around_mm, abs=0.01)


def test_without_the_table_nobody_asks_for_millimetres(tmp_path: Path) -> None:
    hc18.public_set().write_example(tmp_path)
    (tmp_path / hc18.TABLE).unlink()
    table = _read(tmp_path)
    assert not any(frame.values for frame in table.frames)
    assert f"no question asks for millimetres: there is no {hc18.TABLE}" in table.notes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("900001_HC.png", "900099_HC.png", "training_set, number 3: .* has no line for this image"),
        ("1_HC.png,0.5,", "1_HC.png,,", r"HC\.csv, line 2, field 'pixel size\(mm\)': wanted a length, got ''"),
        ("1_HC.png,0.5,", "1_HC.png,-2,", r"HC\.csv, line 2, field 'pixel size\(mm\)': wanted a length, got '-2'"),
    ],
)
def test_an_image_that_the_table_does_not_measure_is_rejected_alone(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    hc18.public_set().write_example(tmp_path)
    file = tmp_path / hc18.TABLE
    file.write_text(file.read_text().replace(old, new))
    table = _read(tmp_path)
    assert len(table.frames) == 11
    (reject,) = table.rejects
    assert re.search(message, str(reject))


def test_a_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    hc18.public_set().write_example(tmp_path)
    file = tmp_path / hc18.TABLE
    file.write_text(file.read_text().replace("pixel size(mm)", "pixel size"))
    with pytest.raises(ValueError, match=r"there is no 'pixel size\(mm\)'"):
        _read(tmp_path)


def test_plain_folders_reject_what_has_no_partner(tmp_path: Path) -> None:
    hc18.public_set().write_example(tmp_path / "raw")
    for name in ("images", "masks"):
        (tmp_path / "plain" / name).mkdir(parents=True)
    for number in range(1, 5):
        stem = tmp_path / "raw" / "training_set" / f"90000{number}_HC"
        stem.with_name(f"{stem.name}.png").rename(tmp_path / "plain" / "images" / f"{number}.png")
        stem.with_name(f"{stem.name}_Annotation.png").rename(tmp_path / "plain" / "masks" / f"{number}.png")
    (tmp_path / "plain" / "images" / "2.png").unlink()
    (tmp_path / "plain" / "masks" / "3.png").unlink()
    (tmp_path / "plain" / "images" / "scan.txt").touch()
    table = _read(tmp_path / "plain")
    assert [frame.name for frame in table.frames] == ["1", "4"]
    assert [(reject.file, reject.row, reject.kind[:20]) for reject in table.rejects] == [
        ("images", 2, "its mask in masks is"),
        ("images", 4, "unexpected file, wan"),
        ("masks", 2, "there is no image fo"),
    ]


def draw_real_rows(shared_real: Path, folder: Path, *, count: int) -> None:
    """Draws ellipses of the circumferences that the first rows of the real training table say, beside that table."""
    (folder / "training_set").mkdir(parents=True)
    table = (shared_real / "hc18_csv" / hc18.TABLE).read_text("utf-8-sig")
    (folder / hc18.TABLE).write_text(table, "utf-8")
    y_HW, x_HW = np.mgrid[:540, :800]
    for row in list(csv.DictReader(table.splitlines()))[:count]:
        around_px = float(row["head circumference (mm)"]) / float(row["pixel size(mm)"])
        radius_px = around_px / (2 * math.pi)
        distance_HW = np.hypot(x_HW - 400, y_HW - 270) / radius_px
        rng = np.random.default_rng(int(row["filename"].split("_")[0]))
        speckle_HW = rng.integers(30, 60, (54, 80)).astype(np.uint8).repeat(10, 0).repeat(10, 1)
        stem = folder / "training_set" / row["filename"].removesuffix(".png")
        PIL.Image.fromarray(np.where(distance_HW < 1, speckle_HW + 90, speckle_HW)).save(f"{stem}.png")
        outline_HW = np.where(np.abs(distance_HW - 1) * radius_px < 1.5, 255, 0).astype(np.uint8)
        PIL.Image.fromarray(outline_HW).save(f"{stem}_Annotation.png")


def test_real_table(shared_real: Path, tmp_path: Path) -> None:
    draw_real_rows(shared_real, tmp_path, count=6)
    frames = _read(tmp_path).frames
    assert len(frames) == 6
    assert frames[0].values == {"pixel_size_mm": 0.0691358041432, "hc_mm": 44.3}
    for frame in frames:
        (box,) = (marked.box for marked in frame.boxes)
        across_mm = (box.x1 - box.x0) * frame.values["pixel_size_mm"]
        assert math.pi * across_mm == pytest.approx(frame.values["hc_mm"], rel=0.02)


def test_real_heads(shared_real: Path) -> None:
    assert len(_read(shared_real / "fetal_heads").frames) == 24
