"""What every file in data/sets must keep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.data.images import check_box, image_size
from medtune.data.public_set import PACKAGE, PublicSet, SetTable, public_set, read_set, sub_folders

NAMES = catalog.names(PACKAGE)


@dataclass(frozen=True)
class Example:
    name: str
    of_name: PublicSet
    folder: Path
    table: SetTable

    def read(self, scratch: Path) -> SetTable:
        scratch.mkdir()
        return self.of_name.read(self.folder, scratch)


@pytest.fixture(scope="module", params=NAMES)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp(request.param)
    of_name = public_set(request.param)
    (folder / "raw").mkdir()
    (folder / "scratch").mkdir()
    of_name.write_example(folder / "raw")
    return Example(request.param, of_name, folder / "raw", of_name.read(folder / "raw", folder / "scratch"))


def test_says_where_it_comes_from(example: Example) -> None:
    of_name = example.of_name
    assert of_name.title
    assert of_name.licence
    assert of_name.patient_unit
    assert of_name.url.startswith("https://")


def test_frames_are_there_and_boxes_lie_in_them(example: Example) -> None:
    frames = example.table.frames
    assert len({frame.name for frame in frames}) == len(frames) > 0
    for frame in frames:
        assert image_size(frame.path) == frame.size
        for _, box in frame.boxes:
            check_box(box, frame.size)


def test_reading_twice_gives_one_table(example: Example, tmp_path: Path) -> None:
    first, again = example.read(tmp_path / "one"), example.read(tmp_path / "two")
    said = [
        [(f.name, f.patient, f.labels, f.boxes, f.values, f.split) for f in table.frames] for table in (first, again)
    ]
    assert said[0] == said[1]


def test_empty_folder_is_refused_in_words(example: Example, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((FileNotFoundError, ValueError), match="empty"):
        read_set(example.name, tmp_path / "empty", tmp_path)


def test_a_lost_image_is_no_silent_gap(example: Example, tmp_path: Path) -> None:
    raw = [path for path in example.folder.rglob("*") if path.suffix in (".png", ".jpeg", ".mha")]
    if example.name == "fpus23":
        raw = [path for path in raw if "four_poses" in path.parts]
    lost = max(path for path in raw if not any(word in str(path) for word in ("mask", "label", "Annotation")))
    kept = lost.read_bytes()
    lost.unlink()
    try:
        with pytest.raises((FileNotFoundError, ValueError)):
            example.read(tmp_path / "scratch")
    finally:
        lost.write_bytes(kept)


def test_folders_of_sets_go_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is none"):
        sub_folders(tmp_path, NAMES)
    (tmp_path / "hc18").mkdir()
    assert sub_folders(tmp_path, NAMES) == {"hc18": tmp_path / "hc18"}
    (tmp_path / "psfh").mkdir()
    with pytest.raises(ValueError, match=r"got 'psfh'\. Did you mean 'psfhs'"):
        sub_folders(tmp_path, NAMES)
