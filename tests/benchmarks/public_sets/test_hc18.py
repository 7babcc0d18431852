import csv
import math
import os
import re
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

from medtune.benchmarks.public_sets import SetTable, hc18
from tests.examples import OF_SETS

TEST_TABLE = "test_set_pixel_size.csv"


def _read(folder: Path) -> SetTable:
    return hc18.public_set().read(folder, folder)


def test_lengths_come_from_the_table(tmp_path: Path) -> None:
    OF_SETS["hc18"](tmp_path)
    frames = _read(tmp_path).frames
    assert {frame.values["pixel_size_mm"] for frame in frames} == {0.5}
    # An ellipse of half-axes 13 and 10 mm: numerical circumference.
    angle = np.linspace(0, 2 * np.pi, 100_001)
    around_mm = float(np.hypot(np.diff(13 * np.cos(angle)), np.diff(10 * np.sin(angle))).sum())
    assert frames[0].values["hc_mm"] == pytest.approx(around_mm, abs=0.01)


def test_without_the_table_nobody_asks_for_millimetres(tmp_path: Path) -> None:
    OF_SETS["hc18"](tmp_path)
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
    OF_SETS["hc18"](tmp_path)
    file = tmp_path / hc18.TABLE
    file.write_text(file.read_text().replace(old, new))
    table = _read(tmp_path)
    assert len(table.frames) == 11
    (reject,) = table.rejects
    assert re.search(message, str(reject))


def test_a_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    OF_SETS["hc18"](tmp_path)
    file = tmp_path / hc18.TABLE
    file.write_text(file.read_text().replace("pixel size(mm)", "pixel size"))
    with pytest.raises(ValueError, match=r"there is no 'pixel size\(mm\)'"):
        _read(tmp_path)


def test_plain_folders_reject_what_has_no_partner(tmp_path: Path) -> None:
    OF_SETS["hc18"](tmp_path / "raw")
    for name in ("images", "masks"):
        (tmp_path / "plain" / name).mkdir(parents=True)
    for number in range(1, 5):
        stem = tmp_path / "raw" / "training_set" / f"90000{number}_HC"
        stem.with_name(f"{stem.name}.png").rename(tmp_path / "plain" / "images" / f"{number}.png")
        stem.with_name(f"{stem.name}_Annotation.png").rename(tmp_path / "plain" / "masks" / f"{number}.png")
    (tmp_path / "plain" / "images" / "2.png").unlink()
    (tmp_path / "plain" / "masks" / "3.png").unlink()
    (tmp_path / "plain" / "images" / "scan.xyz").touch()
    table = _read(tmp_path / "plain")
    assert [frame.name for frame in table.frames] == ["1", "4"]
    assert [(reject.file, reject.row, reject.kind[:20]) for reject in table.rejects] == [
        ("images", 2, "its mask in masks is"),
        ("images", 4, "unexpected file, wan"),
        ("masks", 2, "there is no image fo"),
    ]


def lay_out_real(shared_real: Path, folder: Path, *, every: int = 1, shrunk: int = 1) -> None:
    """Lays out the release with its two real tables; heads are drawn as circles of the circumference in the table.

    Of the training table's rows every so many get an image, which is `shrunk` times smaller than the release's; the
    test table's all get one link to the first.
    """
    tables = shared_real / "hc18_csv"
    for part in ("training_set", "test_set"):
        (folder / part).mkdir(parents=True)
    for table in (hc18.TABLE, TEST_TABLE):
        (folder / table).write_bytes((tables / table).read_bytes())
    size = 800 // shrunk, 540 // shrunk
    for row in rows_of(tables / hc18.TABLE)[::every]:
        around_px = float(row["head circumference (mm)"]) / float(row["pixel size(mm)"]) / shrunk
        radius_px = around_px / (2 * math.pi)
        x, y = size[0] / 2, size[1] / 2
        circle = (x - radius_px, y - radius_px, x + radius_px, y + radius_px)
        rng = np.random.default_rng(int(row["filename"].split("_")[0]))
        head = PIL.Image.fromarray(rng.integers(30, 60, (54, 80)).astype(np.uint8)).resize(size)
        PIL.ImageDraw.Draw(head).ellipse(circle, fill=150)
        outline = PIL.Image.new("L", size)
        PIL.ImageDraw.Draw(outline).ellipse(circle, outline=255, width=2)
        stem = folder / "training_set" / row["filename"].removesuffix(".png")
        head.save(f"{stem}.png", compress_level=1)
        outline.save(f"{stem}_Annotation.png", compress_level=1)
    first = next((folder / "training_set").iterdir())
    for row in rows_of(tables / TEST_TABLE):
        os.link(first, folder / "test_set" / row["filename"])


def rows_of(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_real_table(shared_real: Path, tmp_path: Path) -> None:
    lay_out_real(shared_real, tmp_path, every=200)
    frames = _read(tmp_path).frames
    assert len(frames) == 5
    assert frames[0].values == {"pixel_size_mm": 0.0691358041432, "hc_mm": 44.3}
    for frame in frames:
        (box,) = (marked.box for marked in frame.boxes)
        across_mm = (box.x1 - box.x0) * frame.values["pixel_size_mm"]
        assert math.pi * across_mm == pytest.approx(frame.values["hc_mm"], rel=0.02)


@pytest.mark.slow
def test_every_row_of_both_real_tables(shared_real: Path, tmp_path: Path) -> None:
    lay_out_real(shared_real, tmp_path, shrunk=8)
    table = _read(tmp_path)
    training, test = (rows_of(tmp_path / name) for name in (hc18.TABLE, TEST_TABLE))
    assert (len(training), len(test)) == (999, 335)
    said = {row["filename"]: (float(row["pixel size(mm)"]), float(row["head circumference (mm)"])) for row in training}
    assert {f.path.name: (f.values["pixel_size_mm"], f.values["hc_mm"]) for f in table.frames} == said
    assert len({frame.patient for frame in table.frames}) == 806
    # Both sets count from 000_HC.png: a test row must not give its pixel size to a training image.
    assert {row["filename"] for row in test} & set(said)
    assert table.notes == ("skipped the test set: HC18 publishes no outlines for it",)


def test_real_heads(shared_real: Path) -> None:
    assert len(_read(shared_real / "fetal_heads").frames) == 24
