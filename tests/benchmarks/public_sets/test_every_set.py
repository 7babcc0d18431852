"""Tests the contract that every module in medtune/benchmarks/public_sets/sets must keep."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from medtune.benchmarks.public_sets.public_set import PublicSet, SetTable, public_set, read_set, sub_folders
from medtune.data import catalog
from medtune.data.media.images import check_box, image_size
from tests.examples import OF_SETS

NAMES = catalog.names(catalog.PUBLIC_SETS)


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
    OF_SETS[request.param](folder / "raw")
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


@pytest.mark.parametrize("content", [None, b"\x89PNG", b""], ids=["lost", "broken", "empty"])
def test_one_bad_image_is_rejected_alone_and_names_nobody(
    example: Example, tmp_path: Path, content: bytes | None
) -> None:
    raw = [path for path in example.folder.rglob("*") if path.suffix in (".png", ".jpeg", ".mha")]
    if example.name == "fpus23":
        raw = [path for path in raw if "four_poses" in path.parts]
    bad = max(path for path in raw if not any(word in str(path) for word in ("mask", "label", "Annotation")))
    kept = bad.read_bytes()
    bad.unlink()
    if content is not None:
        bad.write_bytes(content)
    try:
        table = example.read(tmp_path / "scratch")
    finally:
        bad.write_bytes(kept)
    there = {frame.name for frame in table.frames}
    lost = [frame for frame in example.table.frames if frame.name not in there]
    # One of ten films is six frames, as on average.
    assert len(table.rejects) == len(lost) == (6 if example.name == "acouslic" else 1)
    for reject in table.rejects:
        said = f"{reject.file} {reject.field} {reject.reason}"
        assert reject.media is not None
        assert reject.media.stem == bad.stem
        assert not any(
            name in said for name in {bad.stem, *(frame.patient or frame.name for frame in lost)} if len(name) > 2
        )


def test_folders_of_sets_go_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is none"):
        sub_folders(tmp_path, NAMES)
    (tmp_path / "hc18").mkdir()
    assert sub_folders(tmp_path, NAMES) == {"hc18": tmp_path / "hc18"}
    (tmp_path / "psfh").mkdir()
    with pytest.raises(ValueError, match=r"got 'psfh'\. Did you mean 'psfhs'"):
        sub_folders(tmp_path, NAMES)
