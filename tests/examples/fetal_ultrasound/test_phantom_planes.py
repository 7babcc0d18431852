import re
from collections import Counter
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.raw.source import SourceTable


def _read(root: Path, seed: int = 0) -> SourceTable:
    return find_source("phantom_planes").read(root, seed, root)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write = find_source("phantom_planes").write_example
    assert write is not None
    write(tmp_path / "planes")
    return tmp_path / "planes"


def test_example(tree: Path) -> None:
    table = _read(tree)
    assert len(table.questions) == len(table.media) == 24
    assert {len(q.options) for q in table.questions} == {4}
    assert {q.facets["phantom"] for q in table.questions} == {"yes"}


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ("2.png,Heart standard plane,2", "2.png,Heart standard plane,3", ["field 'value': 'Heart .* got '3'"]),
        ("2.png,Heart standard plane,2", "2.png,Lung plane,2", ["field 'class': unknown class 'Lung plane'"]),
        (
            "frame-0-1.png",
            "frame-0-9.png",
            [r"line 3, field 'file': there is no such frame.*-9\.png", r"-1\.png: unexpected"],
        ),
        (
            "frame-0-1.png",
            "frame-0-0.png",
            [r"line 3, field 'file': there is .* or it was listed before.*-0\.png", r"-1\.png: unexpected"],
        ),
    ],
)
def test_a_wrong_line_is_rejected_alone(tree: Path, old: str, new: str, messages: list[str]) -> None:
    path = tree / "labels.csv"
    path.write_text(path.read_text().replace(old, new))
    table = _read(tree)
    assert len(table.questions) == 23
    assert len(table.rejects) == len(messages)
    for reject, message in zip(table.rejects, messages, strict=True):
        assert re.search(message, str(reject))


def test_wrong_or_missing_table_and_empty_folder(tree: Path, tmp_path: Path) -> None:
    path = tree / "labels.csv"
    path.write_text(path.read_text().replace("file,class,value", "name,class,value"))
    with pytest.raises(ValueError, match="wanted the columns file, class, value, there is no 'file'"):
        _read(tree)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="this table is missing"):
        _read(tree)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="the folder is empty"):
        _read(tmp_path / "empty")


def test_real_frames(shared_real: Path) -> None:
    table = _read(shared_real / "phantom_planes")
    answers = Counter(q.answer for q in table.questions)
    assert len(answers) == 6
    assert set(answers.values()) == {5}
    assert len(table.media) == 30
