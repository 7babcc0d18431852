"""Tests the readers of sets of which we have no real files, on files in the documented formats."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks.public_sets import SetTable, public_set
from medtune.benchmarks.public_sets.psfhs import grey
from medtune.data.media.metaimage import read_metaimage
from tests.examples import OF_SETS
from tests.examples.metaimage import write_metaimage


def _tree(name: str, folder: Path) -> Path:
    folder.mkdir()
    OF_SETS[name](folder)
    return folder


def _read(name: str, folder: Path) -> SetTable:
    scratch = folder.with_name(f"{folder.name}_scratch")
    scratch.mkdir(exist_ok=True)
    return public_set(name).read(folder, scratch)


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def _only(table: SetTable, message: str, *, times: int = 1) -> None:
    """Asserts that the same reject occurs the given number of times, and no other reject."""
    assert len(table.rejects) == times
    assert len(set(table.rejects)) == 1
    assert re.search(message, str(table.rejects[0]))


def test_fetal_planes_db_keeps_the_authors_test_set(tmp_path: Path) -> None:
    folder = _tree("fetal_planes_db", tmp_path / "db")
    frames = _read("fetal_planes_db", folder).frames
    splits = {str(frame.patient): frame.split for frame in frames}
    assert all((split == "test") == (int(patient) % 3 == 0) for patient, split in splits.items())
    assert {patient for patient, split in splits.items() if split == "val"} == {"8", "16"}
    assert Counter(frame.labels["plane"] for frame in frames)["Fetal brain, Trans-thalamic"] > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (";Fetal femur;", ";Fetal foot;", "field 'Plane': wanted one of .*, got 'Fetal foot'"),
        (";Fetal femur;Not A Brain", ";Fetal femur;Trans-thalamic", "contradict each other"),
        ("Voluson E6;1", "Voluson E6;yes", "line 2, field 'Train': wanted one of 1, 0, got 'yes'"),
        ("_1_of_2;1;", "_1_of_2;anon;", "line 2, field 'Patient_num': wanted a number, this is none"),
        ("Patient00001_Plane1", "Patient00077_Plane1", "line 2, field 'Image_name': there is no such image"),
        ("Patient00001_Plane2_2", "Patient00001_Plane1_1", "line 3, field 'Image_name': this image was listed before"),
        ("Voluson E6;1", "", "field 'Train': wanted one of 1, 0, got ''"),
    ],
)
def test_fetal_planes_db_rejects_a_line_alone(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = _tree("fetal_planes_db", tmp_path / "db")
    _change(folder / "FETAL_PLANES_DB_data.csv", old, new)
    table = _read("fetal_planes_db", folder)
    assert len(table.frames) == 47
    _only(table, r"FETAL_PLANES_DB_data\.csv, .*" + message)


def test_fetal_planes_db_header(tmp_path: Path) -> None:
    folder = _tree("fetal_planes_db", tmp_path / "db")
    _change(folder / "FETAL_PLANES_DB_data.csv", "Train ", "Train")
    assert len(_read("fetal_planes_db", folder).frames) == 48
    _change(folder / "FETAL_PLANES_DB_data.csv", "Operator", "Doctor")
    with pytest.raises(ValueError, match="there is no 'Operator'"):
        _read("fetal_planes_db", folder)
    (folder / "FETAL_PLANES_DB_data.csv").write_bytes(b"Image_name;\xff\n")
    with pytest.raises(ValueError, match=r"FETAL_PLANES_DB_data\.csv: not a table of UTF-8 text"):
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


def test_acouslic_rejects_a_film_as_often_as_it_would_give_frames(tmp_path: Path) -> None:
    folder = _tree("acouslic", tmp_path / "ac")
    mask = sorted((folder / "masks" / "stacked_fetal_abdomen").iterdir())[0]
    table = folder / "circumferences" / "fetal_abdominal_circumferences_per_sweep.csv"
    kept = read_metaimage(mask)
    write_metaimage(mask, np.where(kept == 2, 3, kept).astype(np.uint8))
    _only(_read("acouslic", folder), "ultrasound, number 1: .*the values 0, 1 and 2, got 3", times=6)
    write_metaimage(mask, kept[:-1])
    _only(_read("acouslic", folder), "must be one grid of frames", times=6)
    write_metaimage(mask, kept)
    _change(table, "00000004-", "99999994-")
    _only(_read("acouslic", folder), "number 5: the table has no line for these sweeps", times=6)
    _change(table, "99999994-", "00000004-")
    _change(table, ",183.5,", ",wide,")
    read = _read("acouslic", folder)
    _only(read, r"per_sweep\.csv, line 3, field 'sweep_3_ac_mm': wanted a length in mm, got 'wide'", times=6)
    assert len(read.frames) == 54


def test_psfhs_boxes_are_those_of_the_mask(tmp_path: Path) -> None:
    folder = _tree("psfhs", tmp_path / "ps")
    frames = _read("psfhs", folder).frames
    assert [tuple(label for label, _ in frame.boxes) for frame in frames[:4]] == [
        ("pubic symphysis", "fetal head"), ("pubic symphysis", "fetal head"), ("fetal head",), ("pubic symphysis",),
    ]  # fmt: skip
    label = folder / "label_mha" / "03744.mha"
    for marks_HW, message in (
        (np.full((64, 64), 4, np.uint8), "wanted a mask with the values 0, 1 and 2, got 4"),
        (np.zeros((64, 60), np.uint8), r"this mask is \(64, 60\), its image \(64, 64\)"),
    ):
        write_metaimage(label, marks_HW)
        table = _read("psfhs", folder)
        assert len(table.frames) == 11
        _only(table, f"image_mha, number 1: {message}")
    label.unlink()
    _only(_read("psfhs", folder), "there is no such file")


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
    file = sorted((folder / "us_data").iterdir())[0] / "frame_label.csv"
    _change(file, "3,6", "3,4")
    (changed,) = [frame for frame in _read("jnu_ifm", folder).frames if frame.path.stem == f"{file.parent.name}_3"]
    assert [label for label, _ in changed.boxes] == ["pubic symphysis"]
    _change(file, "3,4", "3,9")
    table = _read("jnu_ifm", folder)
    assert len(table.frames) == 31
    _only(table, r"us_data/\[1\]/frame_label\.csv, line 5, field 'frame_label': .* of 3, 4, 5, 6, got '9'")


def test_jnu_ifm_rejects_a_film_without_table_as_often_as_it_would_give_frames(tmp_path: Path) -> None:
    folder = _tree("jnu_ifm", tmp_path / "jnu")
    file = sorted((folder / "us_data").iterdir())[2] / "frame_label.csv"
    _change(file, "frame_label", "label")
    table = _read("jnu_ifm", folder)
    assert len(table.frames) == 28
    _only(table, r"us_data/\[3\]/frame_label\.csv, line 1: wanted the columns .* there is no 'frame_label'", times=4)
    _change(file, "label", "frame_label")
    _change(file, "2,5", "1,5")
    _only(_read("jnu_ifm", folder), "line 4, field 'frame_id': this frame was listed before")


def test_jnu_ifm_rejects_enhanced_masks_and_counts_missing_ones(tmp_path: Path) -> None:
    folder = _tree("jnu_ifm", tmp_path / "jnu")
    film = sorted((folder / "us_data").iterdir())[0]
    mask = film / "mask" / f"{film.name}_3_mask.png"
    shown_HW = np.array(PIL.Image.open(mask)) * 30
    PIL.Image.fromarray(shown_HW).save(mask)
    _only(_read("jnu_ifm", folder), "Take mask/, not mask_enhance/")
    mask.unlink()
    assert _read("jnu_ifm", folder).notes == ("frames without a mask, asked for their landmarks alone: 1",)


def test_pbf_us1_goes_by_study(tmp_path: Path) -> None:
    folder = _tree("pbf_us1", tmp_path / "pbf")
    frames = _read("pbf_us1", folder).frames
    assert len(frames) == 48
    assert len({frame.patient for frame in frames}) == 8
    _change(folder / "resume.csv", "cineframe_2", "cineframe_7")
    table = _read("pbf_us1", folder)
    assert len(table.frames) == 47
    line, file = map(str, table.rejects)
    assert re.search(r"resume\.csv, line 4, field 'file_name': there is no such frame.*cineframe_7", line)
    assert re.search(r"\[1\], number 3: unexpected file, wanted only files that resume\.csv lists.*cineframe_2", file)


def test_pbf_us1_tells_how_the_phantom_lay_and_not_who_held_the_probe(tmp_path: Path) -> None:
    folder = _tree("pbf_us1", tmp_path / "pbf")
    study = "Obstetrics Exam - 01-Mar-2024_10_AM"
    table = folder / "metadata.csv"
    assert study in table.read_text("utf-8")
    table.write_text(f"Study Name,protocol,position,Age,Gender\n{study},Diagonal /,SP,22,Female\n", "utf-8")
    facets = {frame.patient: frame.facets for frame in _read("pbf_us1", folder).frames}
    assert facets.pop(study) == {"position": "SP"}
    assert all(found == {} for found in facets.values())
    table.unlink()
    assert all(frame.facets == {} for frame in _read("pbf_us1", folder).frames)


def test_fetal_planes_db_tells_the_scanner(tmp_path: Path) -> None:
    folder = _tree("fetal_planes_db", tmp_path / "db")
    _change(folder / "FETAL_PLANES_DB_data.csv", "Voluson E6", "Aloka")
    _change(folder / "FETAL_PLANES_DB_data.csv", "Voluson E6", "")
    frames = _read("fetal_planes_db", folder).frames
    assert Counter(frame.facets.get("scanner") for frame in frames) == {"Voluson E6": 46, "Aloka": 1, None: 1}
