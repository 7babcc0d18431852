"""Tests that no file, row or wish of the user is lost in silence."""

import json
from pathlib import Path

import pytest

from medtune.data.raw.row_errors import TableOptions
from tests.benchmarks.vqa.tables import pictures, read, read_text

_ROW = "question,answer\nq,a\n"
_TURNS = json.dumps({"query": "q", "response": "a"})


@pytest.mark.parametrize("name", ["test", "exam", "TRAIN"])
def test_a_name_of_a_split_that_the_data_do_not_have(tmp_path: Path, name: str) -> None:
    text = "question,answer,split\nq,a,Test\nr,b,train\n"
    with pytest.raises(ValueError, match=rf"--splits {name}=none: .* The names are: 'Test', 'data', 'train'\."):
        read_text(tmp_path, text, TableOptions(splits={name: "none"}))
    kept = read_text(tmp_path, text, TableOptions(splits={"Test": "none"}))
    assert [question.text for question in kept.questions] == ["r"]


def test_a_name_of_a_split_that_no_class_folder_and_no_file_has(tmp_path: Path) -> None:
    for name in ("benign", "malignant"):
        pictures(tmp_path / "raw" / "train" / name, 1)
        pictures(tmp_path / "raw" / "Test" / name, 1)
    with pytest.raises(ValueError, match=r"--splits test=none: .*Did you mean 'Test'\?"):
        read(tmp_path / "raw", TableOptions(splits={"test": "none"}), name="image_folder")
    (tmp_path / "swift").mkdir()
    (tmp_path / "swift" / "a.jsonl").write_text(_TURNS)
    with pytest.raises(ValueError, match=r"--splits b=test: .*The names are: 'a'\."):
        read(tmp_path / "swift", TableOptions(splits={"b": "test"}), name="ms_swift")


def test_data_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    (raw / "conv.jsonl").write_text(_TURNS)
    for name in ("data.csv", "one/more.json", ".hidden/x.csv", "a/b/c.TSV", "a/b/d.xlsx"):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_text(_ROW)
    assert read(raw, name="ms_swift").notes[0] == (
        "data files that were not read: a/b/c.TSV, a/b/d.xlsx, data.csv and 1 more"
    )
    (raw / "dataset_info.json").write_text(json.dumps({"conv": {"file_name": "conv.jsonl", "columns": _ALPACA}}))
    said = "data files that were not read: a/b/c.TSV, a/b/d.xlsx, data.csv and 1 more"
    assert read(raw, name="llama_factory").notes[0] == said
    for name in ("benign", "malignant"):
        pictures(raw / name, 1)
    said = "data files that were not read: a/b/c.TSV, a/b/d.xlsx, conv.jsonl and 3 more"
    assert said in read(raw, name="image_folder").notes


_ALPACA = {"prompt": "query", "query": "input", "response": "response"}


@pytest.mark.parametrize(
    ("source", "data", "name"),
    [
        ("table", "data.csv", "deep/er/test.csv"),
        ("table", "train.csv", "test.xlsx"),
        ("ms_swift", "conv.jsonl", "test/data.jsonl"),
        ("ms_swift", "conv.jsonl", "val.csv"),
    ],
)
def test_a_test_file_that_would_not_be_read_is_refused(tmp_path: Path, source: str, data: str, name: str) -> None:
    (raw := tmp_path / "raw").mkdir()
    (raw / data).write_text(_TURNS if source == "ms_swift" else _ROW)
    (raw / name).parent.mkdir(parents=True, exist_ok=True)
    (raw / name).write_text(_ROW)
    with pytest.raises(ValueError, match=rf"{name} would not be read, although the name states test or val"):
        read(raw, name=source)
    stem = Path(name).stem
    assert len(read(raw, TableOptions(splits={stem: "none"}), name=source).questions) == 1


def test_a_single_file_is_read_whatever_lies_in_deeper_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test.csv").write_text(_ROW)
    assert not any("not read" in note for note in read_text(tmp_path, _ROW).notes)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"file_name": "./conv.jsonl", "columns": _ALPACA}, None),
        ({"file_name": "conv.jsonl", "columns": {**_ALPACA, "system": "s"}}, "'conv' and 'other' both name conv.jsonl"),
        ({"file_name": "conv.jsonl", "columns": _ALPACA, "split": "test"}, "'conv' and 'other' both name conv.jsonl"),
    ],
)
def test_two_entries_that_name_one_file(tmp_path: Path, other: dict[str, object], message: str | None) -> None:
    (tmp_path / "conv.jsonl").write_text(_TURNS)
    info = {
        "conv": {"file_name": "conv.jsonl", "columns": _ALPACA, "split": "train"},
        "other": {"split": "train", **other},
    }
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    if message is not None:
        with pytest.raises(ValueError, match=message):
            read(tmp_path, name="llama_factory")
        return
    table = read(tmp_path, name="llama_factory")
    assert len(table.questions) == 1
    assert "'conv' and 'other' both name conv.jsonl, which is read once" in table.notes


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"q,a, and more\n", r"data\.csv: line 4 has 3 cells, the header 2\. Quote the cell that contains ','"),
        (b"q,a,\n", r"data\.csv: line 4 has 3 cells, the header 2\."),
        (b"Gr\xf6\xdfe,a\n", r"data\.csv: line 4 holds the byte 0xF6, which is no UTF-8\..* \"CSV UTF-8\""),
    ],
)
@pytest.mark.parametrize("rows_before", [0, 1000])
def test_a_row_that_breaks_a_csv_file_is_named(tmp_path: Path, row: bytes, message: str, rows_before: int) -> None:
    before = b"a longer question,answer\n" * rows_before
    (tmp_path / "data.csv").write_bytes(b'question,answer\n"two\nlines",a\n' + before + row)
    if not rows_before and b"\xf6" in row:
        message = "no table of UTF-8 text"
    with pytest.raises(ValueError, match=message.replace("line 4", f"line {4 + rows_before}")):
        read(tmp_path / "data.csv")


def test_a_line_of_json_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(f"{_TURNS}\n".encode() * 3 + b'{"query": "Gr\xf6\xdfe?", "response": "a"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl: .*line 4 holds the byte 0xF6; write that line as UTF-8"):
        read(tmp_path / "rows.jsonl", name="ms_swift")
