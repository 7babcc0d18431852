"""Data sets in ms-swift's format: JSON lines with messages, images and videos.

Layout: one or more *.jsonl files. Each line is an object with `messages` (a list of {"role": ..., "content": ...} with
the roles system, user and assistant), or with `query` and `response` and optionally `system`. It also has `images` or
`videos`, lists of paths relative to the folder; <image> and <video> mark their positions in the text.

Source: ms-swift's documentation, "Custom dataset" (swift.readthedocs.io).
"""

from __future__ import annotations

import json
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
from medtune.data.raw.row_errors import read_rows
from medtune.data.raw.source import Source, SourceTable

_PREFERENCES = ("rejected_response", "rejected_messages")


def source() -> Source:
    """Returns the source."""
    return Source(
        title="a data set in ms-swift's format",
        licence="of the data set's owner",
        url="https://swift.readthedocs.io/en/latest/Customization/Custom-dataset.html",
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
    """Returns the questions of all *.jsonl files in the folder.

    A broken row, or a row whose media file is missing, is rejected without affecting other rows.

    Raises:
        FileNotFoundError: The folder holds no *.jsonl file.
    """
    folder = raw_folder(root, holds="*.jsonl with messages, and the media that they name")
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"{folder}: wanted at least one *.jsonl with messages, found none.")
    read = [json_rows(file, file=file.name) for file in files]
    found, rejects = read_rows((row for of_file in read for row in of_file.taken), _conversation)
    broken = (reject for of_file in read for reject in of_file.rejects)
    return conversation_table(found, folder, (*broken, *rejects), needs_media=needs_media)


def _conversation(row: Row) -> Conversation:
    return Conversation(
        turns=_turns(row),
        media=listed_media(row, {}),
        id=row.id,
        place=row.place,
        is_preference=any(column in row.values for column in _PREFERENCES),
    )


def _turns(row: Row) -> list[Turn]:
    place, values = row
    if values.get("messages") is not None:
        return listed_turns(row, "messages")
    if "query" in values and "response" in values:
        system = [Turn("system", said(values["system"], place, "system"))] if values.get("system") else []
        asked, answer = (said(values[name], place, name) for name in ("query", "response"))
        return [*system, Turn("user", asked), Turn("assistant", answer)]
    raise place.error(f"wanted messages, or query and response, got {', '.join(map(str, values))}.")


def _write_example(folder: Path) -> None:
    """Writes twelve rows about eight pictures in both forms (messages, query and response), and one with two turns."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for number in range(12):
        image = f"images/us_{number % 8}.png"
        grey_HW = np.random.default_rng(number % 8).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / image)
        asked, answer = f"<image>Which organ is shown, number {number}?", f"organ {number % 3}"
        if number % 2:
            rows.append({"query": asked, "response": answer, "images": [image]})
        else:
            turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
            rows.append({"messages": [{"role": "system", "content": "Answer briefly."}, *turns], "images": [image]})
    rows.append({"messages": [*turns, *turns], "images": [image]})
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
