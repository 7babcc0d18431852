"""Tests that the split that data bring is kept by every source, and never moves a test row into train."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import datasets
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.splits import Division
from medtune.data.prepared.write import prepare
from medtune.data.raw.folder import split_named, splits_of_files
from medtune.data.raw.source import HubId, Source, TableOptions
from medtune.data.types import SPLITS
from tests.benchmarks.vqa.own_data import pictures, read, read_text

NAMES = {"train": ("train", "Training"), "val": ("val", "valid", "dev", "validation"), "test": ("test", "TEST")}
Rows = Sequence[tuple[int, str]]
"""The number of a picture, and the split that the data state for it."""


def _asked(number: int) -> str:
    return f"What is on picture {number}?"


def _csv_column(folder: Path, rows: Rows) -> None:
    names = [NAMES[split][number % len(NAMES[split])] for number, split in rows]
    lines = [
        f"us_{number}.png,{_asked(number)},a{number},{name}" for (number, _), name in zip(rows, names, strict=True)
    ]
    (folder / "data.csv").write_text("\n".join(["image,question,answer,split", *lines]))


def _csv_files(folder: Path, rows: Rows) -> None:
    for split in SPLITS:
        lines = [f"us_{number}.png,{_asked(number)},a{number}" for number, of in rows if of == split]
        if lines:
            (folder / f"my-{NAMES[split][-1]}_v2.csv").write_text("\n".join(["image,question,answer", *lines]))


def _swift(folder: Path, rows: Rows) -> None:
    for split in SPLITS:
        said = [
            {"query": f"<image>{_asked(number)}", "response": f"a{number}", "images": [f"us_{number}.png"]}
            for number, of in rows
            if of == split
        ]
        if said:
            (folder / f"{NAMES[split][-1]}.jsonl").write_text("\n".join(map(json.dumps, said)))


def _factory(folder: Path, rows: Rows) -> None:
    info = {}
    for split in SPLITS:
        said = [
            {"instruction": f"<image>{_asked(number)}", "output": f"a{number}", "images": [f"us_{number}.png"]}
            for number, of in rows
            if of == split
        ]
        if said:
            (folder / f"part_{SPLITS.index(split)}.json").write_text(json.dumps(said))
            info[f"organs_{split}"] = {"file_name": f"part_{SPLITS.index(split)}.json"}
    (folder / "dataset_info.json").write_text(json.dumps(info))


def _saved(folder: Path, rows: Rows) -> None:
    parts = {}
    for split in SPLITS:
        own = [number for number, of in rows if of == split]
        columns = {
            "image": [{"bytes": (folder / f"us_{number}.png").read_bytes(), "path": None} for number in own],
            "question": [_asked(number) for number in own],
            "answer": [f"a{number}" for number in own],
        }
        if own:
            parts[NAMES[split][-1].lower()] = datasets.Dataset.from_dict(columns)
    datasets.DatasetDict(parts).save_to_disk(folder / "saved")


def _swift_column(folder: Path, rows: Rows) -> None:
    said = [
        {"query": _asked(number), "response": f"a{number}", "images": [f"us_{number}.png"], "split": NAMES[of][0]}
        for number, of in rows
    ]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, said)))


def _hub(folder: Path, rows: Rows) -> None:
    for split in SPLITS:
        own = [number for number, of in rows if of == split]
        columns = {
            "image": [{"bytes": (folder / f"us_{number}.png").read_bytes(), "path": None} for number in own],
            "question": [_asked(number) for number in own],
            "answer": [f"a{number}" for number in own],
        }
        if own:
            part = datasets.Dataset.from_dict(columns)
            part.to_parquet(folder / "saved" / "data" / f"{NAMES[split][-1].lower()}-00000-of-00001.parquet")


def _classes(folder: Path, rows: Rows) -> None:
    for number, split in rows:
        place = folder / NAMES[split][0] / ("benign", "malignant")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / f"us_{number}.png", place / f"picture {number}.png")


LAYOUTS: dict[str, tuple[str, Callable[[Path, Rows], None]]] = {
    "a column": ("table", _csv_column), "names of files": ("table", _csv_files), "ms-swift": ("ms_swift", _swift),
    "a column of ms-swift": ("ms_swift", _swift_column), "LLaMA-Factory": ("llama_factory", _factory),
    "saved data set": ("hf", _saved), "a copy of a hub repository": ("hf", _hub), "folders": ("image_folder", _classes),
}  # fmt: skip
SPLIT_OF = st.lists(st.sampled_from(SPLITS), min_size=12, max_size=24).filter(
    lambda said: min(said.count("train"), said.count("test")) > 2
)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    pictures(folder, 24)
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=SPLIT_OF)
def test_no_test_row_enters_train_whatever_the_layout(
    tmp_path_factory: pytest.TempPathFactory, drawn: Path, layout: str, said: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    name, write = LAYOUTS[layout]
    for number in range(len(said)):
        shutil.copy(drawn / f"us_{number}.png", folder)
    write(folder, list(enumerate(said)))
    saved = folder / "saved"
    root = HubId(str(saved)) if write is _hub else saved if name == "hf" else folder
    if name == "image_folder":
        for picture in folder.glob("*.png"):
            picture.unlink()
    prepared = prepare(find_source(name), benchmark="vqa", root=root, out=folder.with_name(f"{folder.name} prepared"))
    brought = [said.count(split) for split in SPLITS]
    found = [prepared.num_questions(split) for split in SPLITS]
    assert found[2] == brought[2]
    assert sum(found) == len(said)
    if brought[1]:
        assert found == brought
    if name != "image_folder":
        tested = {question.answer for question in prepared.questions("test")}
        assert tested == {f"a{number}" for number, split in enumerate(said) if split == "test"}


def test_rows_without_a_split_join_the_others_and_unknown_names_are_refused(tmp_path: Path) -> None:
    text = "image,question,answer,split\nus_0.png,q,a,test\nus_1.png,q,b,\nus_2.png,q,c,{}\n"
    assert [q.split for q in read_text(tmp_path, text.format("Dev")).questions] == ["test", None, "val"]
    with pytest.raises(
        ValueError, match=r"'holdout' is no split that medtune knows\. It knows train, training, trainset, val.*--sp"
    ):
        read_text(tmp_path, text.format("holdout"))
    for meant, splits in (("test", ["test", None, "test"]), ("none", ["test", None])):
        said = TableOptions(splits={"holdout": meant})
        assert [q.split for q in read_text(tmp_path, text.format("holdout"), said).questions] == splits
    with pytest.raises(ValueError, match="--splits x=exam: wanted train, val, test or none"):
        split_named("x", {"x": "exam"})


def test_rows_without_a_split_never_join_the_test_rows(tmp_path: Path) -> None:
    pictures(tmp_path / "raw", 12)
    lines = [f"us_{n}.png,{_asked(n)},a{n},{'test' if n < 3 else ''}" for n in range(12)]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["image,question,answer,split", *lines]))
    prepared = prepare(find_source("table"), benchmark="vqa", root=tmp_path / "raw", out=tmp_path / "out")
    assert {question.answer for question in prepared.questions("test")} == {"a0", "a1", "a2"}
    assert prepared.num_questions("train") + prepared.num_questions("val") == 9


def test_a_single_file_that_is_called_test_is_test_alone(tmp_path: Path) -> None:
    table = read_text(tmp_path, "image,question,answer\nus_0.png,q,a\n", file="test.csv")
    assert [question.split for question in table.questions] == ["test"]
    for name in ("more.csv", "train.jsonl"):
        (tmp_path / name).write_text("x")
    assert "2 other tables lie beside the one that was read" in read(tmp_path / "test.csv").notes[0]


def test_names_of_files_that_contradict_each_other_or_their_rows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"more\.csv: the name states no split, while that of test\.csv does"):
        splits_of_files(["test.csv", "more.csv"], {})
    assert splits_of_files(["test.csv", "more.csv"], {"more": "train"}) == {"test.csv": "test", "more.csv": "train"}
    assert splits_of_files(["test.csv", "more.csv"], {"more": "none"}) == {"test.csv": "test"}
    assert splits_of_files(["val/a.parquet", "train/a.parquet"], {}) == {
        "val/a.parquet": "val",
        "train/a.parquet": "train",
    }
    with pytest.raises(ValueError, match="the name states the splits test and train"):
        splits_of_files(["train_test.csv"], {})
    table = read_text(tmp_path, "image,question,answer,split\nus_0.png,q,a,train\n", file="test.csv")
    assert "the row says that it is train, the name of its file says test" in str(table.rejects[0])


def test_two_parts_of_a_hub_data_set_that_are_both_test(tmp_path: Path) -> None:
    part = datasets.Dataset.from_dict({"question": ["q"], "answer": ["a"]})
    datasets.DatasetDict(train=part, test=part, testmini=part).save_to_disk(tmp_path / "saved")
    with pytest.raises(ValueError, match="'testmini' is no split"):
        read(tmp_path / "saved", name="hf")
    with pytest.raises(ValueError, match=r"test and testmini are all test\. Leave all but one out"):
        read(tmp_path / "saved", TableOptions(splits={"testmini": "test"}), name="hf")
    table = read(tmp_path / "saved", TableOptions(splits={"testmini": "none"}), name="hf")
    assert [question.split for question in table.questions] == ["train", "test"]


def test_a_data_set_with_one_part_called_train_is_not_divided_yet(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"question": ["q"], "answer": ["a"]}).save_to_disk(tmp_path / "saved")
    assert [question.split for question in read(tmp_path / "saved", name="hf").questions] == [None]


LEAKING = "image,question,answer,patient,split\n" + "".join(
    f"us_{n}.png,q{n},a,{'p0' if n in (0, 5) else f'p{n}'},{'train' if n < 3 else 'val' if n < 4 else 'test'}\n"
    for n in range(6)
)


def _prepared(folder: Path, text: str, *, keep_leaks: bool) -> Prepared:
    pictures(folder / "raw", 6)
    (folder / "raw" / "data.csv").write_text(text)
    source: Source = find_source("table")
    division = Division(keep_leaks=keep_leaks)
    return prepare(source, benchmark="vqa", root=folder / "raw", out=folder / "out", division=division)


def test_a_patient_in_train_and_test_is_refused_or_kept_and_stated(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1 patient is in two splits.* 1 of 2 test questions ask.*--keep-leaks"):
        _prepared(tmp_path, LEAKING, keep_leaks=False)
    prepared = _prepared(tmp_path, LEAKING, keep_leaks=True)
    assert [prepared.num_questions(split) for split in SPLITS] == [3, 1, 2]
    assert prepared.manifest.split_leaks == {"patient": 1}
    assert prepared.manifest.leaks == "of 2 test questions 1 about a shared patient"


def test_an_image_in_train_and_test_is_refused_whatever_its_name(tmp_path: Path) -> None:
    pictures(tmp_path / "raw", 6)
    shutil.copy(tmp_path / "raw" / "us_0.png", tmp_path / "raw" / "other.png")
    text = LEAKING.replace("us_5.png,q5,a,p0", "other.png,q5,a,p5")
    with pytest.raises(ValueError, match=r"1 image is in two splits.* 1 of 2 test questions"):
        _prepared(tmp_path, text, keep_leaks=False)
    leaks = _prepared(tmp_path, text, keep_leaks=True).manifest.split_leaks
    assert leaks == {"image": 1}
