from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medtune.data.source import SourceTable
from medtune.data.sources import phantom_planes


def _read(root: Path, seed: int = 0) -> SourceTable:
    return phantom_planes.source().read(root, seed, root)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write = phantom_planes.source().write_example
    assert write is not None
    write(tmp_path / "planes")
    return tmp_path / "planes"


def test_example(tree: Path) -> None:
    table = _read(tree)
    assert len(table.questions) == len(table.media) == 24
    assert {len(q.options) for q in table.questions} == {4}
    assert {q.facets["phantom"] for q in table.questions} == {"yes"}


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("file,class,value", "name,class,value", ValueError, "wanted the columns file, class, value, got"),
        ("Heart standard plane,2", "Heart standard plane,3", ValueError, "'Heart standard plane' has value 2, got '3'"),
        ("Heart standard plane,2", "Lung plane,2", ValueError, "unknown class 'Lung plane'"),
        ("frame-0-1.png", "frame-0-9.png", FileNotFoundError, r"the image 'frame-0-9\.png' is missing"),
        ("frame-0-1.png", "frame-0-0.png", FileNotFoundError, r"'frame-0-0\.png' is missing .* or listed twice"),
    ],
)
def test_wrong_table(tree: Path, old: str, new: str, error: type[Exception], message: str) -> None:
    path = tree / "labels.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(error, match=message):
        _read(tree)


def test_missing_table_unlisted_image_and_empty_folder(tree: Path, tmp_path: Path) -> None:
    (tree / "extra.png").touch()
    with pytest.raises(ValueError, match=r"extra\.png: unexpected file, wanted only files that labels\.csv lists"):
        _read(tree)
    (tree / "labels.csv").unlink()
    with pytest.raises(FileNotFoundError, match="the table of classes is missing"):
        _read(tree)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="the folder is empty"):
        _read(tmp_path / "empty")


def test_real_frames(shared_real: Path) -> None:
    table = _read(shared_real / "phantom_planes")
    assert Counter(q.answer for q in table.questions) == dict.fromkeys(phantom_planes.PLANES.values(), 5)
    assert len(table.media) == 30
