"""Tests reading the data sets of ms-swift and LLaMA-Factory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.raw.source import SourceTable


def _tree(name: str, folder: Path) -> Path:
    write = find_source(name).write_example
    assert write is not None
    write(folder)
    return folder


def _read(name: str, folder: Path) -> SourceTable:
    return find_source(name).read(folder, 0, folder)


def test_ms_swift_rows_of_both_forms(tmp_path: Path) -> None:
    table = _read("ms_swift", _tree("ms_swift", tmp_path / "raw"))
    assert len(table.questions) == 12
    assert table.notes == ("rows left out, not one question and one answer: 1",)
    first, second = table.questions[:2]
    assert (first.text, first.answer) == ("Answer briefly.\nWhich organ is shown, number 0?", "organ 0")
    assert (second.text, second.options, second.answer_kind) == ("Which organ is shown, number 1?", (), "text")
    assert table.media[first.media_id][0].path == tmp_path / "raw" / "images" / "us_0.png"
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
    ("row", "message"),
    [
        ({"query": "?", "response": "!", "images": ["images/no.png"]}, "there is no such image file.*images/no.png"),
        ({"query": "?", "response": "!", "images": ["../x.png"]}, "lies outside of the folder"),
        ({"query": 3, "response": "!", "images": ["images/us_0.png"]}, "field 'query': wanted a text, got 3"),
        ({"text": "?"}, "wanted messages, or query and response, got text"),
        ({"messages": ["hello"], "images": []}, "field 'messages': wanted a list of objects"),
        ({"query": "?", "response": "!", "images": [7]}, "field 'images': wanted a text, got 7"),
        ("{", "broken JSON"),
        (["?", "!"], "wanted a JSON object, got list"),
    ],
)
def test_a_broken_row_is_rejected_alone(tmp_path: Path, row: object, message: str) -> None:
    raw = _tree("ms_swift", tmp_path / "raw")
    (raw / "more.jsonl").write_text("\n" + (row if isinstance(row, str) else json.dumps(row)) + "\n")
    table = _read("ms_swift", raw)
    assert len(table.questions) == 12
    (reject,) = table.rejects
    assert re.search(rf"^more\.jsonl, line 2.*: .*{message.partition(': ')[2] or message}", str(reject))
    assert message.partition(": ")[0] in str(reject) or ".*" in message
    assert "no.png" not in reject.reason
    assert [missing.file for missing in table.missing] == (["images/no.png"] if "no.png" in message else [])


def test_llama_factory_rejects_a_broken_row_alone(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    rows = json.loads((raw / "shared.json").read_text())
    rows[2]["pictures"] = ["images/no.png"]
    rows[5]["messages"][1]["content"] = None
    (raw / "shared.json").write_text(json.dumps([*rows, "?"]))
    with (raw / "alpaca.jsonl").open("a") as file:
        file.write('\n{"instruction": "?", "output": 3, "images": ["images/us_0.png"]}')
    table = _read("llama_factory", raw)
    assert len(table.questions) == 14
    assert {(reject.file, reject.row, reject.field) for reject in table.rejects} == {
        ("shared.json", 3, None),
        ("shared.json", 6, "content"),
        ("shared.json", 9, None),
        ("alpaca.jsonl", 9, "output"),
    }


def test_a_file_that_is_no_list_of_rows_is_refused(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    for text, message in (("[", "broken JSON"), ("{}", "wanted a JSON list of rows, got dict")):
        (raw / "shared.json").write_text(text)
        with pytest.raises(ValueError, match=rf"shared\.json: {message}"):
            _read("llama_factory", raw)


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
