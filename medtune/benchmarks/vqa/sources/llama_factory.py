"""Data sets in LLaMA-Factory's format: ShareGPT or Alpaca rows with images and videos, listed in dataset_info.json.

Layout: dataset_info.json ({"name": {"file_name": ..., "formatting": "sharegpt", "columns": ..., "tags": ...}}), the
.json or .jsonl files that it names, and the media files, whose paths are relative to the folder. Entries without a
file_name refer to a data set on a hub and are left out.

Source: LLaMA-Factory, data/README.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.vqa.conversation_rows import (
    PATIENT_UNIT,
    Conversation,
    Row,
    Turn,
    conversation_table,
    json_rows,
    listed_media,
    listed_turns,
    said,
)
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.row_errors import ReadRows, read_rows
from medtune.data.raw.source import Source, SourceTable

INFO = "dataset_info.json"
_COLUMNS = {
    "prompt": "instruction",
    "query": "input",
    "response": "output",
    "messages": "conversations",
    "system": "system",
    "history": "history",
    "images": "images",
    "videos": "videos",
}
_TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "system_tag": "system",
}


def source() -> Source:
    """Returns the source."""
    return Source(
        title="a data set in LLaMA-Factory's format",
        licence="of the data set's owner",
        url="https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md",
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=_read,
        read_questions=_read_questions,
        write_example=_write_example,
    )


def _read_questions(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns the questions of a folder whether or not their media are there."""
    return _read(root, seed, scratch, needs_media=False)


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    """Returns the questions of every data set that dataset_info.json lists.

    A broken row, or a row whose media file is missing, is rejected without affecting other rows.

    Raises:
        FileNotFoundError: dataset_info.json or a file that it names is missing.
        ValueError: An entry of dataset_info.json or a whole file is broken.
    """
    folder = raw_folder(root, holds=f"{INFO}, its files and media")
    info = folder / INFO
    if not info.is_file():
        raise FileNotFoundError(
            f"{info}: this table of data sets is missing. Copy it from LLaMA-Factory's data folder."
        )
    try:
        entries = json.loads(info.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{info}: broken JSON ({error}).") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{info}: wanted an object of data sets, got {type(entries).__name__}.")
    local = {name: entry for name, entry in entries.items() if isinstance(entry, dict) and "file_name" in entry}
    read = [_data_set(folder, name, entry) for name, entry in sorted(local.items())]
    found = [row for of_set in read for row in of_set.taken]
    rejects = [reject for of_set in read for reject in of_set.rejects]
    return conversation_table(found, folder, rejects, needs_media=needs_media)


def _data_set(folder: Path, name: str, entry: Mapping[str, object]) -> ReadRows[Conversation]:
    where = f"{folder / INFO}, {name!r}"
    columns = {**_COLUMNS, **_mapping(entry.get("columns"), where)}
    tags = {**_TAGS, **_mapping(entry.get("tags"), where)}
    formatting, file = entry.get("formatting", "alpaca"), entry["file_name"]
    if formatting not in ("alpaca", "sharegpt"):
        raise ValueError(f"{where}: wanted formatting sharegpt or alpaca, got {formatting!r}.")
    if not isinstance(file, str):
        raise ValueError(f"{where}: wanted the name of a file in file_name, got {file!r}.")

    def conversation(row: Row) -> Conversation:
        return Conversation(
            turns=_sharegpt(row, columns, tags) if formatting == "sharegpt" else _alpaca(row, columns),
            media=listed_media(row, columns),
            id=f"{name} {row.id}",
            place=row.place,
            is_preference=bool(entry.get("ranking")),
        )

    rows, broken = json_rows(folder / file, file=file)
    found, rejects = read_rows(rows, conversation)
    return ReadRows(found, (*broken, *rejects))


def _mapping(value: object, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f"{where}: columns and tags are objects of texts, got {value!r}.")
    return value


def _sharegpt(row: Row, columns: Mapping[str, str], tags: Mapping[str, str]) -> list[Turn]:
    roles = {tags["user_tag"]: "user", tags["assistant_tag"]: "assistant", tags["system_tag"]: "system"}
    listed = listed_turns(row, columns["messages"], role=tags["role_tag"], text=tags["content_tag"])
    turns = [Turn(roles.get(role, role), text) for role, text in listed]
    return [*_system(row, columns), *turns]


def _alpaca(row: Row, columns: Mapping[str, str]) -> list[Turn]:
    def text(name: str) -> str:
        return said(row.values.get(columns[name]), row.place, columns[name])

    asked = [text("prompt"), *([text("query")] if row.values.get(columns["query"]) else [])]
    before = _system(row, columns)
    if row.values.get(columns["history"]):
        before.append(Turn("user", "earlier turns"))
    return [*before, Turn("user", "\n".join(asked)), Turn("assistant", text("response"))]


def _system(row: Row, columns: Mapping[str, str]) -> list[Turn]:
    system = row.values.get(columns["system"])
    return [Turn("system", said(system, row.place, columns["system"]))] if system else []


def _write_example(folder: Path) -> None:
    """Writes a ShareGPT data set and an Alpaca one about eight pictures, with changed and with default column names."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number in range(8):
        grey_HW = np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / "images" / f"us_{number}.png")
    shared = [
        {
            "messages": [
                {"role": "user", "content": f"<image>Which organ is shown, number {number}?"},
                {"role": "assistant", "content": f"organ {number % 3}"},
            ],
            "pictures": [f"images/us_{number}.png"],
        }
        for number in range(8)
    ]
    alpaca = [
        {
            "instruction": f"<image>Describe plane {number}.",
            "input": "In one word.",
            "output": f"plane {number % 2}",
            "images": [f"images/us_{number}.png"],
        }
        for number in range(8)
    ]
    (folder / "shared.json").write_text(json.dumps(shared), "utf-8")
    (folder / "alpaca.jsonl").write_text("\n".join(map(json.dumps, alpaca)), "utf-8")
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    info = {
        "organs": {
            "file_name": "shared.json",
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "images": "pictures"},
            "tags": tags,
        },
        "planes": {"file_name": "alpaca.jsonl"},
        "elsewhere": {"hf_hub_url": "someone/something"},
    }
    (folder / INFO).write_text(json.dumps(info), "utf-8")
