"""Data sets of ms-swift and LLaMA-Factory as questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medtune.data.source import SourceTable, source


def _tree(name: str, folder: Path) -> Path:
    write = source(name).write_example
    assert write is not None
    write(folder)
    return folder


def _read(name: str, folder: Path) -> SourceTable:
    return source(name).read(folder, 0, folder)


def test_ms_swift_rows_of_both_forms(tmp_path: Path) -> None:
    table = _read("ms_swift", _tree("ms_swift", tmp_path / "raw"))
    assert len(table.questions) == 12
    assert table.notes == ("rows left out, not one question and one answer: 1",)
    first, second = table.questions[:2]
    assert (first.text, first.answer) == ("Answer briefly.\nWhich organ is shown, number 0?", "organ 0")
    assert (second.text, second.options, second.answer_kind) == ("Which organ is shown, number 1?", (), "text")
    assert table.media[first.media_id].path == tmp_path / "raw" / "images" / "us_0.png"
    assert len({q.patient_id for q in table.questions}) == 8


def test_llama_factory_both_formattings_with_their_names(tmp_path: Path) -> None:
    table = _read("llama_factory", _tree("llama_factory", tmp_path / "raw"))
    texts = {q.text: q.answer for q in table.questions}
    assert texts["Which organ is shown, number 4?"] == "organ 1"
    assert texts["Describe plane 3.\nIn one word."] == "plane 1"
    assert len(texts) == 16


@pytest.mark.parametrize(
    ("row", "note"),
    [
        ({"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}, "no picture or film"),
        ({"query": "?", "response": "!", "images": ["images/us_0.png", "images/us_1.png"]}, "several media"),
        ({"query": "?", "response": "!", "rejected_response": "x", "images": ["images/us_0.png"]}, "a preferred and"),
        ({"query": "?", "response": " ", "images": ["images/us_0.png"]}, "an empty answer"),
    ],
)
def test_what_cannot_be_asked_is_left_out_and_counted(tmp_path: Path, row: dict[str, object], note: str) -> None:
    raw = _tree("ms_swift", tmp_path / "raw")
    (raw / "more.jsonl").write_text(json.dumps(row) + "\n")
    table = _read("ms_swift", raw)
    assert len(table.questions) == 12
    assert any(note in said and said.endswith(": 1") for said in table.notes)


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (
            {"query": "?", "response": "!", "images": ["images/no.png"]},
            FileNotFoundError,
            r"more\.jsonl, line 1: there is no",
        ),
        ({"query": "?", "response": "!", "images": ["../x.png"]}, ValueError, "lies outside"),
        ({"query": 3, "response": "!", "images": ["images/us_0.png"]}, ValueError, "wanted a text, got 3"),
        ({"text": "?"}, ValueError, "wanted messages, or query and response, got text"),
    ],
)
def test_broken_rows_are_named(tmp_path: Path, row: dict[str, object], error: type[Exception], message: str) -> None:
    raw = _tree("ms_swift", tmp_path / "raw")
    (raw / "more.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(error, match=message):
        _read("ms_swift", raw)


def test_llama_factory_needs_its_table_and_knows_two_formattings(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    info = json.loads((raw / "dataset_info.json").read_text())
    (raw / "dataset_info.json").write_text(
        json.dumps(info | {"planes": {"file_name": "alpaca.jsonl", "formatting": "x"}})
    )
    with pytest.raises(ValueError, match="wanted formatting sharegpt or alpaca, got 'x'"):
        _read("llama_factory", raw)
    (raw / "dataset_info.json").write_text(
        json.dumps(info | {"planes": {"file_name": "alpaca.jsonl", "ranking": True}})
    )
    assert any("a preferred and a rejected answer: 8" in note for note in _read("llama_factory", raw).notes)
    (raw / "dataset_info.json").unlink()
    with pytest.raises(FileNotFoundError, match="this table of data sets is missing"):
        _read("llama_factory", raw)
