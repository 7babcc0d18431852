"""Prepared questions as a data set of Hugging Face, and a data set as a prepared folder: what went in comes out."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import PIL.Image
import pytest

import medtune
from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare
from medtune.data.types import Question


def scans(number: int = 24) -> datasets.Dataset:
    """Returns a data set of a stranger: pictures with columns of the usual names."""
    rng = np.random.default_rng(2)
    rows = []
    for place in range(number):
        picture = PIL.Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8))
        about = {"image": picture, "patient": f"p{place // 2}", "side": ("left", "right")[place // 2 % 2]}
        kinds: Sequence[tuple[str, list[str], str]] = (
            ("Which plane is this?", ["axial", "sagittal", "coronal"], ("axial", "sagittal", "coronal")[place % 3]),
            ("Is there a mass?", [], ("yes", "no")[place % 2]),
            ("What is seen?", [], ("A cyst of the liver.", "Nothing.")[place % 2]),
        )
        rows += [{**about, "question": text, "options": options, "answer": said} for text, options, said in kinds]
    types = {"image": datasets.Image(), "options": datasets.List(datasets.Value("string"))}
    text = dict.fromkeys(("patient", "side", "question", "answer"), datasets.Value("string"))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return datasets.Dataset.from_dict(columns, features=datasets.Features({**text, **types}))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> medtune.Dataset:
    return medtune.from_datasets(scans(), tmp_path_factory.mktemp("scans") / "prepared")


def said(question: Question) -> tuple[object, ...]:
    facets = tuple(sorted(question.facets.items()))
    return (
        question.text,
        question.options,
        question.answer,
        question.answer_kind,
        question.unit,
        question.split,
        facets,
    )


def pixels(data: medtune.Questions, question: Question) -> bytes:
    return np.asarray(data.images(question)[0]).tobytes()


def test_a_data_set_becomes_the_folder_that_prepare_writes_of_it(data: medtune.Dataset, tmp_path: Path) -> None:
    scans().save_to_disk(tmp_path / "saved")
    prepared = prepare(find_source("hf"), benchmark="vqa", root=tmp_path / "saved", out=tmp_path / "prepared")
    assert data.prepared.data_hash == prepared.data_hash
    every = [*data.train, *data.val, *data.test]
    assert len(every) == 72
    assert {q.answer_kind for q in every} == {"choice", "yes_no", "text"}
    assert {q.facets["side"] for q in every} == {"left", "right"}
    splits = {q.patient_id: {each.split for each in every if each.patient_id == q.patient_id} for q in every}
    assert len(splits) == 12
    assert all(len(found) == 1 for found in splits.values())


def test_what_comes_out_goes_in_again(data: medtune.Dataset, tmp_path: Path) -> None:
    rows = medtune.to_datasets(data)
    assert list(rows) == ["train", "validation", "test"]
    assert isinstance(rows["train"].features["image"], datasets.Image)
    again = medtune.from_datasets(rows, tmp_path / "again")
    for split in ("train", "val", "test"):
        before, after = getattr(data, split), getattr(again, split)
        shown = sorted((said(q), pixels(before, q)) for q in before)
        assert shown == sorted((said(q), pixels(after, q)) for q in after)
        assert len({q.patient_id for q in before}) == len({q.patient_id for q in after})
    assert medtune.to_datasets(data.test).num_rows == len(data.test)


def test_the_questions_of_a_benchmark_are_shown_with_their_boxes(prepared_tiny: Path) -> None:
    data, rows = medtune.load(prepared_tiny), medtune.to_datasets(prepared_tiny)
    assert {name: part.num_rows for name, part in rows.items()} == {
        "train": len(data.train), "validation": len(data.val), "test": len(data.test)
    }  # fmt: skip
    boxed = 0
    for row, question in zip(rows["test"], data.test, strict=True):
        assert (row["id"], row["question"], tuple(row["options"])) == (question.id, question.text, question.options)
        assert (row["answer"], row["answer_type"], row["task"]) == (
            question.answer, question.answer_kind, question.facets["task"]
        )  # fmt: skip
        (shown,) = data.test.images(question)
        assert np.array_equal(np.asarray(row["image"].convert("RGB")), np.asarray(shown))
        boxed += bool(data.test.media(question)[0].boxes)
    assert boxed


def test_volumes_and_masks_are_paths(prepared_ct: Path, tmp_path: Path) -> None:
    data, rows = medtune.load(prepared_ct).test, medtune.to_datasets(prepared_ct)["test"]
    for row, question in zip(rows, data, strict=True):
        (ref,) = data.media(question)
        assert row["volume"] == [str(ref.path.resolve())]
        assert ("masks" in row) == bool(ref.masks)
        assert row.get("unit") == question.unit
    assert "image" not in rows.column_names
    again = medtune.from_datasets(medtune.to_datasets(data[:4]), tmp_path / "again")
    every = [*again.train, *again.val, *again.test]
    assert sorted((q.text, q.answer) for q in every) == sorted((q.text, q.answer) for q in data[:4])
    split = next(each for each in (again.train, again.val, again.test) if len(each))
    assert [ref.kind for ref in split.media(split[0])] == ["volume"]
    assert {organ for organ, _ in split.media(split[0])[0].masks} == {
        organ for organ, _ in data.media(data[0])[0].masks
    }


def test_a_label_of_every_picture_is_asked_in_the_users_words(tmp_path: Path) -> None:
    rows = scans().filter(lambda row: row["question"] == "Which plane is this?").remove_columns(["question", "options"])
    rows = rows.rename_column("answer", "plane").add_column("left_out", ["x"] * len(rows))
    data = medtune.from_datasets(
        rows,
        tmp_path / "prepared",
        question="Which plane?",
        options=("axial", "coronal", "sagittal"),
        columns={"answer": "plane"},
        facets=("side",),
    )
    assert {(q.text, q.options) for q in data.test} == {("Which plane?", ("axial", "coronal", "sagittal"))}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda rows: list(rows), TypeError, "a list is no datasets.Dataset or datasets.DatasetDict"),
        (lambda rows: rows.to_iterable_dataset(), TypeError, "load a streamed data set whole"),
        (lambda rows: rows.remove_columns("answer"), ValueError, "answer"),
        (lambda rows: rows.rename_column("side", "earlier_turns"), ValueError, "a column `messages` with all turns"),
        (lambda rows: datasets.DatasetDict({"mini": rows}), ValueError, "'mini' is no split that medtune knows"),
    ],
)
def test_what_cannot_be_prepared_is_refused(tmp_path: Path, change: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        medtune.from_datasets(change(scans(4)), tmp_path / "prepared")
    assert not (tmp_path / "prepared").exists()
