import os
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import PIL.Image
import pytest

from medtune.benchmarks.public_sets import SetTable, fpus23
from medtune.data.types import Box, Size
from tests.examples import OF_SETS


def _read(folder: Path) -> SetTable:
    return fpus23.public_set().read(folder, folder)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    OF_SETS["fpus23"](tmp_path)
    return tmp_path


def _a_stream(tree: Path) -> Path:
    return next((tree / "Dataset" / "annos" / "annotation").glob("stream_hdvb*_h")) / "annotations.xml"


def test_pixels_that_a_box_touches_are_in_it(tree: Path) -> None:
    frame = next(frame for frame in _read(tree).frames if frame.name.endswith("frame_000001"))
    assert frame.size == Size(68, 39)
    assert frame.boxes[0].box == Box(5, 5, 35, 25)


def test_streams_are_patients_and_planes_have_none(tree: Path) -> None:
    frames = _read(tree).frames
    assert Counter(frame.patient for frame in frames if "orientation" in frame.labels).most_common(1)[0][1] == 3
    assert [frame.patient for frame in frames if "plane" in frame.labels] == [None] * 16


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (">hdvb<", ">hdvx<", "field 'Pose': wanted one of hdvb, hdvf, huvb, huvf, got 'hdvx'"),
        ('label="abdomen"', 'label="belly"', "wanted a box of abdomen, arm, head, legs, got 'belly'"),
        ('xtl="4.40"', 'xtl="wide"', "needs the numbers xtl, ytl, xbr and ybr"),
        ('xtl="4.40"', 'xtl="inf"', "needs the numbers xtl, ytl, xbr and ybr"),
        ('xtl="4.40"', 'xtl="900.0"', "is empty or lies outside the frame"),
        ('width="68"', 'width="86"', "the frame is 68 x 39, the file says 86 x 39"),
        ("frame_000002.png", "frame_000009.png", "there is no such frame"),
        ("frame_000002.png", "frame_000001.png", "this frame was listed before"),
    ],
)
def test_a_frame_that_is_not_as_documented_is_rejected_alone(tree: Path, old: str, new: str, message: str) -> None:
    xml = _a_stream(tree)
    text = xml.read_text()
    # The frames stand in the file from the last to the first.
    last = text.rindex("<image") if "xtl" in old or "label" in old else text.index("<image")
    xml.write_text(text[:last] + text[last:].replace(old, new, 1))
    table = _read(tree)
    assert len(table.frames) == 39
    (reject,) = table.rejects
    assert reject.file == "Dataset/annos/annotation/[1]/annotations.xml"
    assert reject.row in (1, 2, 3)
    assert message in str(reject)


def test_a_broken_file_is_rejected_as_often_as_it_would_list_frames(tree: Path) -> None:
    xml = _a_stream(tree)
    xml.write_text(xml.read_text().replace("</annotations>", ""))
    table = _read(tree)
    assert len(table.frames) == 37
    assert len(table.rejects) == 3
    assert {reject.media for reject in table.rejects} == {xml}
    assert "broken XML (no element found" in table.rejects[0].reason


def test_a_broken_frame_of_a_plane_is_rejected_alone(tree: Path) -> None:
    (tree / "Dataset_Plane" / "FL_PLANE" / "fl_plane_2.png").write_bytes(b"GIF")
    table = _read(tree)
    assert len(table.frames) == 39
    assert [(reject.file, reject.row) for reject in table.rejects] == [("Dataset_Plane/FL_PLANE", 3)]


def test_two_poses_of_one_frame_are_rejected_and_one_pose_twice_counts_once(tree: Path) -> None:
    xml = _a_stream(tree)
    assert xml.read_text().count(">hdvb<") == 4
    assert Counter(frame.labels.get("orientation") for frame in _read(tree).frames)["hdvb"] == 6
    xml.write_text(xml.read_text().replace(">hdvb<", ">huvf<", 2))
    table = _read(tree)
    (reject,) = table.rejects
    assert reject.reason.endswith("got 'hdvb', 'huvf'.")
    assert Counter(frame.labels.get("orientation") for frame in table.frames)["hdvb"] == 4


def lay_out_real(shared_real: Path, folder: Path, *, frame: Path, every: int = 1) -> None:
    """Lays out the ten real XML files as the repository has them; every frame that they name is a link to `frame`.

    Of each file's images every so many are kept.
    """
    for xml in (shared_real / "fpus23_annotations").glob("*/annotations.xml"):
        stream = xml.parent.name
        for part in (folder / "annotation" / stream, folder / "Dataset" / "four_poses" / stream):
            part.mkdir(parents=True)
        tree = ElementTree.parse(xml)
        for number, image in enumerate(tree.findall("image")):
            if number % every:
                tree.getroot().remove(image)
                continue
            os.link(frame, folder / "Dataset" / "four_poses" / stream / str(image.get("name")))
        tree.write(folder / "annotation" / stream / xml.name)


def test_real_annotations(shared_real: Path, tmp_path: Path) -> None:
    frame = tmp_path / "frame.png"
    PIL.Image.new("L", (672, 389), 60).save(frame)
    lay_out_real(shared_real, tmp_path / "fpus23", frame=frame)
    frames = _read(tmp_path / "fpus23").frames
    assert len(frames) == 3570
    assert Counter(frame.labels["orientation"] for frame in frames) == {
        "huvb": 1480, "hdvb": 1023, "huvf": 609, "hdvf": 458,
    }  # fmt: skip
    assert Counter(label for frame in frames for label, _ in frame.boxes) == {
        "abdomen": 1625, "legs": 1528, "arm": 1312, "head": 651,
    }  # fmt: skip
    assert sum("plane" in frame.labels for frame in frames) == 42
    assert len({frame.patient for frame in frames}) == 10
    assert all(str(frame.patient).split("_")[1] == frame.labels["orientation"] for frame in frames)
