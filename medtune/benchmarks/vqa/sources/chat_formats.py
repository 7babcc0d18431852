"""Conversations as two training tools keep them: ms-swift's JSON lines, and LLaMA-Factory's dataset_info.json.

`ms_swift`: one or more *.jsonl files, whose names may state their split. Each line is an object with `messages` (a list
of {"role": ..., "content": ...} with the roles system, user and assistant); with `conversation` or `conversations` (a
list of these, of {"from": ..., "value": ...} or of {"human": ..., "assistant": ...}); or with `query` and `response`
and optionally `history`. It may have `system`, and `images` or `videos`, lists of paths; <image> and <video> mark their
positions in the text. Further columns are read as those of a table: options, answer_type, task, patient_id, split and
others.

`llama_factory`: dataset_info.json ({"name": {"file_name": ..., "formatting": "sharegpt", "columns": ..., "tags":
...}}), the .json or .jsonl files that it names, and the media files, whose paths are relative to the folder. Entries
without a file_name refer to a data set on a hub and are left out.

Source: ms-swift's documentation, "Custom dataset" (swift.readthedocs.io); LLaMA-Factory, data/README.md.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.columns import columns_of
from medtune.benchmarks.vqa.conversation import ASSISTANT, SYSTEM, USER, words
from medtune.benchmarks.vqa.json_rows import json_rows
from medtune.benchmarks.vqa.media_cells import MediaCells, media_reader
from medtune.benchmarks.vqa.question_table import LeftOut, ReadSet, question_table
from medtune.benchmarks.vqa.row_questions import RowReader
from medtune.benchmarks.vqa.sources.table import PATIENT_UNIT, json_columns
from medtune.data.json_text import json_value
from medtune.data.raw.folder import file_stem, raw_folder, splits_of_files
from medtune.data.raw.rows import Row
from medtune.data.raw.source import NOTHING_SAID, HubId, RowError, Source, SourceTable, TableOptions
from medtune.data.types import Split

MESSAGES = "messages"
PREFERENCE = "a preferred and a rejected answer"
UNDESIRED = "an answer that is marked as undesired"

_PREFERENCES = ("rejected_response", "rejected_messages")
_OTHER_NAMES = ("conversation", "conversations")
_OF_TURNS = ("query", "response", "history", *_OTHER_NAMES)
_MEDIA = ("images", "videos")
INFO = "dataset_info.json"
_READ_BY = ("formatting", "columns", "tags", "ranking")
"""What an entry says about how its file is read."""
_COLUMNS = {
    "prompt": "instruction", "query": "input", "response": "output", "messages": "conversations", "system": "system",
    "history": "history", "images": "images", "videos": "videos",
}  # fmt: skip
_TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "system_tag": "system",
}


def ms_swift() -> Source:
    """Data sets in ms-swift's format: JSON lines with messages, images and videos."""
    guide = "https://swift.readthedocs.io/en/latest/Customization/Custom-dataset.html"
    return _of_tool("ms-swift", guide, _read_swift, _recognises_swift)


def llama_factory() -> Source:
    """Data sets in LLaMA-Factory's format: ShareGPT or Alpaca rows with media, listed in dataset_info.json."""
    guide = "https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md"
    return _of_tool("LLaMA-Factory", guide, _read_factory, _recognises_factory)


def _of_tool(
    tool: str,
    guide: str,
    read: Callable[..., SourceTable],
    recognises: Callable[[Path | HubId], bool],
    options: TableOptions = NOTHING_SAID,
) -> Source:
    return Source(
        title=f"a data set in {tool}'s format",
        licence="of the data set's owner",
        url=guide,
        provenance="own",
        patient_unit=PATIENT_UNIT,
        read=partial(read, options=options, needs_files=True),
        read_questions=partial(read, options=options, needs_files=False),
        with_options=partial(_of_tool, tool, guide, read, recognises),
        recognises=recognises,
    )


def _rows(
    path: Path, file: str, left_out: Callable[[Row], str], with_messages: Callable[[Row], Row]
) -> Iterator[Row | RowError | LeftOut]:
    for row in json_rows(path, file=file):
        if isinstance(row, RowError):
            yield row
        elif why := left_out(row):
            yield LeftOut(why)
        else:
            try:
                yield with_messages(row)
            except RowError as error:
                yield error


def earlier_turns(row: Row, field: str) -> list[tuple[str, str]]:
    """Returns the turns in a field with a list of [question, answer]; none where it is empty."""
    found: list[tuple[str, str]] = []
    history = row.values.get(field) or []
    for pair in history if isinstance(history, list) else [history]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise row.place.error("wanted a list of [question, answer].", field=field)
        found += [(USER, words(pair[0], row.place, field)), (ASSISTANT, words(pair[1], row.place, field))]
    return found


def _recognises_swift(origin: Path | HubId) -> bool:
    if isinstance(origin, HubId) or not origin.exists():
        return False
    files = _line_files(origin)
    if not files:
        return False
    names = set(json_columns(files[0], ""))
    return not names.isdisjoint((MESSAGES, *_OTHER_NAMES)) or {"query", "response"} <= names


def _line_files(origin: Path) -> list[Path]:
    return sorted(origin.glob("*.jsonl")) if origin.is_dir() else [origin] if origin.suffix == ".jsonl" else []


def _read_swift(
    root: Path | None, seed: int, scratch: Path, *, options: TableOptions, needs_files: bool
) -> SourceTable:
    is_file = root is not None and root.is_file()
    folder = root.parent if root and is_file else raw_folder(root, holds="*.jsonl with messages, and their media")
    files = _line_files(root if root and is_file else folder)
    if not files:
        raise FileNotFoundError(f"{folder}: wanted at least one *.jsonl with messages, found none.")
    splits = splits_of_files([file.name for file in files], options.splits)
    media = media_reader((folder,), options, scratch, needs_files=needs_files)
    sets = []
    for name, split in splits.items():
        names = [MESSAGES, *(each for each in json_columns(folder / name, name) if each not in (MESSAGES, *_OF_TURNS))]
        columns = columns_of(names, {roles.TURNS: MESSAGES, **options.columns}, where=str(folder / name))
        reader = RowReader(columns, media, options, seed=seed)
        sets.append(ReadSet(partial(_rows, folder / name, name, _swift_left_out, _swift_messages), split, reader))
    stems = [file_stem(file.name) for file in files]
    return question_table(
        sets, root or folder, options=options, split_names=stems, read_files=None if is_file else files
    )


def _swift_left_out(row: Row) -> str:
    if any(column in row.values for column in _PREFERENCES):
        return PREFERENCE
    return UNDESIRED if row.values.get("label") is False else ""


def _swift_messages(row: Row) -> Row:
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


def _recognises_factory(origin: Path | HubId) -> bool:
    if isinstance(origin, HubId) or not origin.exists():
        return False
    folder = origin if origin.is_dir() else origin.parent
    try:
        return bool(_entries(folder, None if origin.is_dir() else origin.name))
    except (FileNotFoundError, ValueError):
        return False


def _read_factory(
    root: Path | None, seed: int, scratch: Path, *, options: TableOptions, needs_files: bool
) -> SourceTable:
    one = root.name if root is not None and root.is_file() else None
    folder = root.parent if root and one else raw_folder(root, holds=f"{INFO} and the files that it names")
    entries = _entries(folder, one)
    if not entries:
        raise ValueError(f"{folder / INFO}: it lists no file in this folder{f' named {one}' if one else ''}.")
    stated = {_name_with_split(name, entry): (name, entry) for name, entry in sorted(entries.items())}
    splits = splits_of_files(stated, options.splits)
    media = media_reader((folder,), options, scratch, needs_files=needs_files)
    once = _once({stated[each][0]: (stated[each][1], split) for each, split in splits.items()}, folder / INFO)
    sets = [_read_set(folder, name, entry, split, media, options, seed) for name, (entry, split) in once.kept.items()]
    files = [str(entry["file_name"]) for entry in entries.values()]
    read_files = None if one else [folder / name for name in (INFO, *files)]
    return question_table(
        sets,
        root or folder,
        options=options,
        split_names=map(file_stem, files),
        read_files=read_files,
        notes=once.notes,
    )


def _entries(folder: Path, file: str | None) -> dict[str, Mapping[str, object]]:
    path = folder / INFO
    if not path.is_file():
        raise FileNotFoundError(f"{path}: this table of data sets is missing. Copy it beside the data.")
    try:
        listed = json_value(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path}: broken JSON, or no UTF-8 text ({error}). Take the file again.") from None
    if not isinstance(listed, dict):
        raise ValueError(f"{path}: wanted a JSON object with a data set under each name, got {type(listed).__name__}.")
    local = {name: entry for name, entry in listed.items() if isinstance(entry, dict) and "file_name" in entry}
    return {name: entry for name, entry in local.items() if file is None or entry["file_name"] == file}


class _Once(NamedTuple):
    kept: dict[str, tuple[Mapping[str, object], Split | None]]
    notes: tuple[str, ...]


def _once(entries: Mapping[str, tuple[Mapping[str, object], Split | None]], where: Path) -> _Once:
    first: dict[str, str] = {}
    kept: dict[str, tuple[Mapping[str, object], Split | None]] = {}
    notes = []
    for name, (entry, split) in entries.items():
        file = os.path.normpath(str(entry["file_name"]))
        earlier = first.setdefault(file, name)
        if earlier == name:
            kept[name] = entry, split
            continue
        said = f"{earlier!r} and {name!r} both name {file}"
        other, its_split = kept[earlier]
        if split != its_split or any(entry.get(each) != other.get(each) for each in _READ_BY):
            raise ValueError(
                f"{where}: {said}, and differ in {', '.join(_READ_BY)} or the split. Remove one of them, or its rows "
                "would count twice."
            )
        notes.append(f"{said}, which is read once")
    return _Once(kept, tuple(notes))


def _name_with_split(name: str, entry: Mapping[str, object]) -> str:
    return "/".join(filter(None, (str(entry.get("split") or ""), name, str(entry["file_name"]))))


def _read_set(
    folder: Path,
    name: str,
    entry: Mapping[str, object],
    split: Split | None,
    media: MediaCells,
    options: TableOptions,
    seed: int,
) -> ReadSet:
    where = f"{folder / INFO}, {name!r}"
    layout = _Layout(
        name,
        is_sharegpt=entry.get("formatting", "alpaca") == "sharegpt",
        columns={**_COLUMNS, **_mapping(entry.get("columns"), where)},
        tags={**_TAGS, **_mapping(entry.get("tags"), where)},
        is_preference=bool(entry.get("ranking")),
    )
    file = entry["file_name"]
    if entry.get("formatting", "alpaca") not in ("alpaca", "sharegpt"):
        raise ValueError(f"{where}: wanted formatting sharegpt or alpaca, got {entry['formatting']!r}.")
    if not isinstance(file, str):
        raise ValueError(f"{where}: wanted the name of a file in file_name, got {file!r}.")
    names = ["id", MESSAGES, *_MEDIA]
    names += [each for each in json_columns(folder / file, file) if each not in layout.used]
    said = {roles.TURNS: MESSAGES, roles.IMAGE: "images", roles.VIDEO: "videos"}
    columns = columns_of(list(dict.fromkeys(names)), {**said, **options.columns}, where=str(folder / file))
    reader = RowReader(columns, media, options, seed=seed)
    left_out, with_messages = partial(_factory_left_out, layout=layout), partial(_factory_messages, layout=layout)
    return ReadSet(partial(_rows, folder / file, file, left_out, with_messages), split, reader)


@dataclass(frozen=True, slots=True)
class _Layout:
    name: str
    is_sharegpt: bool
    columns: Mapping[str, str]
    tags: Mapping[str, str]
    is_preference: bool

    @property
    def used(self) -> frozenset[str]:
        return frozenset(self.columns.values())


def _factory_left_out(row: Row, layout: _Layout) -> str:
    if layout.is_preference:
        return PREFERENCE
    return UNDESIRED if row.values.get(layout.columns.get("kto_tag", "")) is False else ""


def _factory_messages(row: Row, layout: _Layout) -> Row:
    columns, values = layout.columns, row.values
    said = _sharegpt(row, layout) if layout.is_sharegpt else _alpaca(row, columns)
    system = values.get(columns["system"])
    before = [(SYSTEM, words(system, row.place, columns["system"]))] if system else []
    turns = [{"role": role, "content": text} for role, text in (*before, *said)]
    media = {name: values.get(columns[name]) for name in _MEDIA}
    own = {name: cell for name, cell in values.items() if name not in layout.used}
    row_id = own.get("id") or f"{layout.name}, {row.place.file}, {row.place.row}"
    return Row(row.place, {**own, "id": row_id, MESSAGES: turns, **media})


def _sharegpt(row: Row, layout: _Layout) -> list[tuple[str, str]]:
    tags = layout.tags
    names = {tags["user_tag"]: USER, tags["assistant_tag"]: ASSISTANT, tags["system_tag"]: SYSTEM}
    field = layout.columns["messages"]
    listed = row.values.get(field)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise row.place.error(f"wanted a list of objects, got {type(listed).__name__}.", field=field)
    found = []
    for each in listed:
        role = words(each.get(tags["role_tag"]), row.place, tags["role_tag"])
        found.append((names.get(role, role), words(each.get(tags["content_tag"]), row.place, tags["content_tag"])))
    return found


def _alpaca(row: Row, columns: Mapping[str, str]) -> list[tuple[str, str]]:
    def text(name: str) -> str:
        return words(row.values.get(columns[name]), row.place, columns[name])

    asked = [text("prompt"), *([text("query")] if row.values.get(columns["query"]) else [])]
    return [*earlier_turns(row, columns["history"]), (USER, "\n".join(asked)), (ASSISTANT, text("response"))]


def _mapping(value: object, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f"{where}: columns and tags are objects of texts, got {value!r}.")
    return value
