"""The sets for which no real file is at hand, in their documented formats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.metaimage import read_metaimage, write_metaimage
from medtune.data.public_set import SetTable, public_set
from medtune.data.sets.psfhs import grey


def _tree(name: str, folder: Path) -> Path:
    folder.mkdir()
    public_set(name).write_example(folder)
    return folder


def _read(name: str, folder: Path) -> SetTable:
    scratch = folder.with_name(f"{folder.name}_scratch")
    scratch.mkdir(exist_ok=True)
    return public_set(name).read(folder, scratch)


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_fetal_planes_db_keeps_the_authors_test_set(tmp_path: Path) -> None:
    folder = _tree("fetal_planes_db", tmp_path / "db")
    frames = _read("fetal_planes_db", folder).frames
    splits = {frame.patient: frame.split for frame in frames}
    assert all((split == "test") == (int(patient) % 3 == 0) for patient, split in splits.items())
    assert {patient for patient, split in splits.items() if split == "val"} == {"8", "16"}
    assert Counter(frame.labels["plane"] for frame in frames)["Fetal brain, Trans-thalamic"] > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Operator", "Doctor", "there is no 'Operator'"),
        (";Fetal femur;", ";Fetal foot;", "column 'Plane': wanted one of .*, got 'Fetal foot'"),
        (";Fetal femur;Not A Brain", ";Fetal femur;Trans-thalamic", "contradict each other"),
        ("Train ", "Train", None),
        ("Voluson E6;1", "Voluson E6;yes", "column 'Train': wanted one of 1, 0, got 'yes'"),
        ("Patient00001_Plane1", "Patient00077_Plane1", "there is no image"),
    ],
)
def test_fetal_planes_db_table(tmp_path: Path, old: str, new: str, message: str | None) -> None:
    folder = _tree("fetal_planes_db", tmp_path / "db")
    _change(folder / "FETAL_PLANES_DB_data.csv", old, new)
    if message is None:
        assert len(_read("fetal_planes_db", folder).frames) == 48
        return
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        _read("fetal_planes_db", folder)


def test_acouslic_takes_frames_of_each_view_and_the_circumference_of_their_sweep(tmp_path: Path) -> None:
    folder = _tree("acouslic", tmp_path / "ac")
    frames = _read("acouslic", folder).frames
    assert Counter(frame.labels["view"] for frame in frames) == {"none": 30, "suboptimal": 20, "optimal": 10}
    # Frames 8 to 11 of 24 are the third sweep, the one whose column is filled.
    assert sorted(frame.values["ac_mm"] for frame in frames if frame.values) == [180 + 3.5 * n for n in range(10)]
    assert all(bool(frame.boxes) == (frame.labels["view"] != "none") for frame in frames)
    assert len({frame.patient for frame in frames}) == 8


def test_acouslic_outlines_and_areas_give_one_box(tmp_path: Path) -> None:
    folder = _tree("acouslic", tmp_path / "ac")
    boxes = [frame.boxes for frame in _read("acouslic", folder).frames]
    for path in (folder / "masks" / "stacked_fetal_abdomen").iterdir():
        marks_THW = read_metaimage(path)
        inside_THW = np.ones_like(marks_THW, dtype=bool)
        for axis in (1, 2):
            for shift in (-1, 1):
                inside_THW &= np.roll(marks_THW, shift, axis) > 0
        write_metaimage(path, np.where(inside_THW, 0, marks_THW).astype(np.uint8))
    assert [frame.boxes for frame in _read("acouslic", folder).frames] == boxes


def test_acouslic_refuses_unknown_values_and_lines(tmp_path: Path) -> None:
    folder = _tree("acouslic", tmp_path / "ac")
    mask = sorted((folder / "masks" / "stacked_fetal_abdomen").iterdir())[0]
    kept = read_metaimage(mask)
    write_metaimage(mask, np.where(kept == 2, 3, kept).astype(np.uint8))
    with pytest.raises(ValueError, match="wanted the values 0, 1 and 2, got 3"):
        _read("acouslic", folder)
    write_metaimage(mask, kept[:-1])
    with pytest.raises(ValueError, match="must be one grid of frames"):
        _read("acouslic", folder)
    write_metaimage(mask, kept)
    _change(folder / "circumferences" / "fetal_abdominal_circumferences_per_sweep.csv", "00000004-", "99999994-")
    with pytest.raises(ValueError, match="no line for the sweeps 00000004-"):
        _read("acouslic", folder)


def test_psfhs_boxes_are_those_of_the_mask(tmp_path: Path) -> None:
    folder = _tree("psfhs", tmp_path / "ps")
    frames = _read("psfhs", folder).frames
    assert [tuple(label for label, _ in frame.boxes) for frame in frames[:4]] == [
        ("pubic symphysis", "fetal head"), ("pubic symphysis", "fetal head"), ("fetal head",), ("pubic symphysis",),
    ]  # fmt: skip
    label = folder / "label_mha" / "03744.mha"
    write_metaimage(label, np.full((64, 64), 4, np.uint8))
    with pytest.raises(ValueError, match="wanted the values 0, 1 and 2, got 4"):
        _read("psfhs", folder)


def test_grey_takes_channels_first_or_last_but_no_colours() -> None:
    grey_HW = np.arange(20, dtype=np.uint8).reshape(4, 5)
    for stored in (grey_HW, np.stack([grey_HW] * 3), np.dstack([grey_HW] * 3)):
        assert (grey(stored, Path("x.mha")) == grey_HW).all()
    with pytest.raises(ValueError, match="three equal channels"):
        grey(np.stack([grey_HW, grey_HW, grey_HW + 1]), Path("x.mha"))


def test_truncated_metaimage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.mha"
    write_metaimage(path, np.random.default_rng(0).integers(0, 255, (3, 64, 64)).astype(np.uint8))
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ValueError, match=r"a\.mha: no readable MetaImage"):
        read_metaimage(path)


def test_jnu_ifm_asks_only_for_what_the_label_says_is_visible(tmp_path: Path) -> None:
    folder = _tree("jnu_ifm", tmp_path / "jnu")
    frames = _read("jnu_ifm", folder).frames
    assert Counter(frame.labels["landmarks"] for frame in frames) == dict.fromkeys(
        ("none", "symphysis", "head", "both"), 8
    )
    table = sorted((folder / "us_data").iterdir())[0] / "frame_label.csv"
    _change(table, "3,6", "3,4")
    (changed,) = [frame for frame in _read("jnu_ifm", folder).frames if frame.path.stem == f"{table.parent.name}_3"]
    assert [label for label, _ in changed.boxes] == ["pubic symphysis"]
    _change(table, "3,4", "3,9")
    with pytest.raises(ValueError, match="wanted a frame_label of 3, 4, 5, 6, got '9'"):
        _read("jnu_ifm", folder)


def test_jnu_ifm_refuses_enhanced_masks_and_counts_missing_ones(tmp_path: Path) -> None:
    folder = _tree("jnu_ifm", tmp_path / "jnu")
    film = sorted((folder / "us_data").iterdir())[0]
    mask = film / "mask" / f"{film.name}_3_mask.png"
    shown_HW = np.array(PIL.Image.open(mask)) * 30
    PIL.Image.fromarray(shown_HW).save(mask)
    with pytest.raises(ValueError, match="Take mask/, not mask_enhance/"):
        _read("jnu_ifm", folder)
    mask.unlink()
    assert _read("jnu_ifm", folder).notes == ("frames without a mask, asked for their landmarks alone: 1",)


def test_pbf_us1_goes_by_study(tmp_path: Path) -> None:
    folder = _tree("pbf_us1", tmp_path / "pbf")
    frames = _read("pbf_us1", folder).frames
    assert len(frames) == 48
    assert len({frame.patient for frame in frames}) == 8
    (folder / "metadata.csv").write_text("Study Name,protocol,position\n")
    assert len(_read("pbf_us1", folder).frames) == 48
    _change(folder / "resume.csv", "cineframe_2", "cineframe_7")
    with pytest.raises(FileNotFoundError, match=r"the frame Obstetrics Exam.*cineframe_7.* is missing"):
        _read("pbf_us1", folder)
