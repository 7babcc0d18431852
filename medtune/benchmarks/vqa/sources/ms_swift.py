"""Data sets in ms-swift's format: JSON lines with messages, images and videos.

Layout: one or more *.jsonl files, whose names may state their split. Each line is an object with `messages` (a list of
{"role": ..., "content": ...} with the roles system, user and assistant); with `conversation` or `conversations` (a list
of these, of {"from": ..., "value": ...} or of {"human": ..., "assistant": ...}); or with `query` and `response` and
optionally `history`. It may have `system`, and `images` or `videos`, lists of paths; <image> and <video> mark their
positions in the text. Further columns are read as those of a table: options, answer_type, task, patient_id, split and
others.

Source: ms-swift's documentation, "Custom dataset" (swift.readthedocs.io).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.columns import MediaReader, columns_of
from medtune.benchmarks.vqa.conversation import ASSISTANT, USER, words
from medtune.benchmarks.vqa.question_table import LeftOut, ReadSet, json_rows, question_table
from medtune.benchmarks.vqa.row_questions import RowReader
from medtune.benchmarks.vqa.sources.table import PATIENT_UNIT, json_columns
from medtune.data.raw.folder import file_stem, raw_folder, splits_of_files
from medtune.data.raw.hub_rows import HubId, Row
from medtune.data.raw.media_bytes import Fetcher
from medtune.data.raw.row_errors import NOTHING_SAID, RowError, TableOptions
from medtune.data.raw.source import Source, SourceTable

_PREFERENCES = ("rejected_response", "rejected_messages")
MESSAGES = "messages"
_OTHER_NAMES = ("conversation", "conversations")
_OF_TURNS = ("query", "response", "history", *_OTHER_NAMES)
PREFERENCE = "a preferred and a rejected answer"
UNDESIRED = "an answer that is marked as undesired"


def source(options: TableOptions = NOTHING_SAID) -> Source:
    return Source(
        title="a data set in ms-swift's format",
        licence="of the data set's owner",
        url="https://swift.readthedocs.io/en/latest/Customization/Custom-dataset.html",
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=partial(_read, options=options, needs_files=True),
        read_questions=partial(_read, options=options, needs_files=False),
        with_options=source,
        recognises=_recognises,
    )


def _recognises(origin: Path | HubId) -> bool:
    if isinstance(origin, HubId) or not origin.exists():
        return False
    files = _files(origin)
    if not files:
        return False
    names = set(json_columns(files[0], ""))
    return not names.isdisjoint((MESSAGES, *_OTHER_NAMES)) or {"query", "response"} <= names


def _files(origin: Path) -> list[Path]:
    return sorted(origin.glob("*.jsonl")) if origin.is_dir() else [origin] if origin.suffix == ".jsonl" else []


def _read(root: Path | None, seed: int, scratch: Path, *, options: TableOptions, needs_files: bool) -> SourceTable:
    is_file = root is not None and root.is_file()
    folder = root.parent if root and is_file else raw_folder(root, holds="*.jsonl with messages, and their media")
    files = _files(root if root and is_file else folder)
    if not files:
        raise FileNotFoundError(f"{folder}: wanted at least one *.jsonl with messages, found none.")
    splits = splits_of_files([file.name for file in files], options.splits)
    media = MediaReader((*options.media_folders, folder), scratch, Fetcher(), needs_files)
    sets = []
    for name, split in splits.items():
        names = [MESSAGES, *(each for each in json_columns(folder / name, name) if each not in (MESSAGES, *_OF_TURNS))]
        columns = columns_of(names, {roles.TURNS: MESSAGES, **options.columns}, where=str(folder / name))
        reader = RowReader(columns, media, options, seed=seed)
        sets.append(ReadSet(partial(_rows, folder / name), split, reader))
    stems = [file_stem(file.name) for file in files]
    return question_table(sets, folder, options=options, split_names=stems, read_files=None if is_file else files)


def _rows(path: Path) -> Iterator[Row | RowError | LeftOut]:
    for row in json_rows(path, file=path.name):
        if isinstance(row, RowError):
            yield row
        elif any(column in row.values for column in _PREFERENCES):
            yield LeftOut(PREFERENCE)
        elif row.values.get("label") is False:
            yield LeftOut(UNDESIRED)
        else:
            try:
                yield _with_messages(row)
            except RowError as error:
                yield error


def _with_messages(row: Row) -> Row:
    values = row.values
    if values.get(MESSAGES) is not None:
        return row
    if (turns := next((values[name] for name in _OTHER_NAMES if values.get(name) is not None), None)) is not None:
        return Row(row.place, {**values, MESSAGES: turns})
    if "query" not in values or "response" not in values:
        raise row.place.error("wanted messages, or query and response.", cell=", ".join(map(str, values)))
    asked, answer = (words(values[name], row.place, name) for name in ("query", "response"))
    said = [*earlier_turns(row, "history"), (USER, asked), (ASSISTANT, answer)]
    turns = [{"role": role, "content": text} for role, text in said]
    return Row(row.place, {**{name: cell for name, cell in values.items() if name not in _OF_TURNS}, MESSAGES: turns})


def earlier_turns(row: Row, field: str) -> list[tuple[str, str]]:
    """Returns the turns in a field with a list of [question, answer]; none where it is empty."""
    found: list[tuple[str, str]] = []
    history = row.values.get(field) or []
    for pair in history if isinstance(history, list) else [history]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise row.place.error("wanted a list of [question, answer].", field=field)
        found += [(USER, words(pair[0], row.place, field)), (ASSISTANT, words(pair[1], row.place, field))]
    return found
