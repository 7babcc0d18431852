"""Tests reading PathVQA: the repository's JSON and a mirror of the hub's parquet files, with invented images."""

from collections import Counter
from pathlib import Path

import datasets
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import HubId, SourceTable
from tests.examples import write_example
from tests.examples.drawn_images import drawn_image


def example(folder: Path) -> Path:
    write_example("path_vqa", folder)
    return folder


def read(folder: Path, scratch: Path) -> SourceTable:
    scratch.mkdir(exist_ok=True)
    return find_source("path_vqa").read(folder, 0, scratch)


def test_the_repositorys_form_keeps_its_split_and_tells_yes_no_from_open(tmp_path: Path) -> None:
    table = read(example(tmp_path / "raw"), tmp_path / "s")
    assert Counter(q.split for q in table.questions) == {"train": 24, "val": 9, "test": 9}
    assert Counter(q.facets["task"] for q in table.questions) == {"yes_no": 14, "open": 28}
    assert {q.facets["asks"] for q in table.questions} == {"what", "is", "where"}
    dark = next(q for q in table.questions if q.text == "Where is the shape?")
    assert (dark.answer, dark.printed["answer"]) == ("in the dark", "in the dark ")
    assert table.notes[1] == "answers repaired (tabs and blanks at the ends): 14"


def test_images_may_lie_in_one_folder(tmp_path: Path) -> None:
    folder = example(tmp_path / "raw")
    for path in sorted((folder / "images" / "test").iterdir()):
        path.rename(folder / "images" / path.name)
    assert not read(folder, tmp_path / "s").rejects


def test_a_mirror_of_the_hub_is_read_with_its_three_splits(tmp_path: Path) -> None:
    features = datasets.Features(
        {"image": datasets.Image(), "question": datasets.Value("string"), "answer": datasets.Value("string")}
    )
    folder = tmp_path / "mirror"
    (folder / "data").mkdir(parents=True)
    for split, first, count in (("train", 0, 6), ("validation", 6, 3), ("test", 9, 3)):
        numbers = range(first, first + count)
        rows = {
            "image": [{"bytes": drawn_image(number), "path": None} for number in numbers],
            "question": ["is a square shown?"] * count,
            "answer": ["yes" if number % 2 else "no" for number in numbers],
        }
        part = datasets.Dataset.from_dict(rows, features=features)
        part.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    prepared = prepare(find_source("path_vqa"), benchmark="path_vqa", root=HubId(str(folder)), out=tmp_path / "out")
    assert [prepared.num_questions(split) for split in ("train", "val", "test")] == [6, 3, 3]
    assert prepared.manifest.split_leaks == {}


def test_a_mirror_without_answers_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    (folder / "data").mkdir(parents=True)
    datasets.Dataset.from_dict({"image": ["a"], "question": ["b"]}).to_parquet(folder / "data" / "train.parquet")
    with pytest.raises(ValueError, match="wanted the columns image, question, answer, there is no 'answer'"):
        prepare(find_source("path_vqa"), benchmark="path_vqa", root=HubId(str(folder)), out=tmp_path / "no")
