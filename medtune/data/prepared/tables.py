"""Writes and reads questions.arrow and media.arrow, the tables of a prepared folder.

Both are uncompressed Arrow IPC files, so that opening maps them into memory and reads no row.
"""

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from medtune.data.languages import ENGLISH
from medtune.data.prepared.manifest import AGAIN, MEDIA, QUESTIONS
from medtune.data.prepared.question_rows import ROWS
from medtune.data.types import Box, MediaKind, MediaRef, Question, Turn

_ROWS_AT_ONCE = 5_000
_MOST_SHARED = 100_000
_QUESTION_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("media_id", pa.string()),
        ("text", pa.string()),
        ("options", pa.list_(pa.string())),
        ("answer", pa.string()),
        ("answer_kind", pa.string()),
        ("unit", pa.string()),
        ("facets", pa.map_(pa.string(), pa.string())),
        ("printed", pa.map_(pa.string(), pa.string())),
        ("patient_id", pa.string()),
        ("split", pa.string()),
        ("turns", pa.list_(pa.struct([("asked", pa.string()), ("answer", pa.string())]))),
        ("language", pa.string()),
    ]
)
_MAPS = ("facets", "printed")
_MEDIA_SCHEMA = pa.schema(
    [
        ("media_id", pa.string()),
        ("kind", pa.string()),
        ("file", pa.string()),
        ("boxes", pa.list_(pa.list_(pa.int32(), 4))),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("region", pa.list_(pa.int32(), 4)),
        ("masks", pa.map_(pa.string(), pa.string())),
        ("encoding", pa.string()),
        ("look", pa.uint64()),
        ("content", pa.string()),
        ("pictures", pa.list_(pa.uint64())),
    ]
)


class StoredMedia(NamedTuple):
    """A row of media.arrow: a `MediaRef` whose files lie in the media folder, and what its file shows.

    `look` is the perceptual hash of an image. `content` is the digest of the decoded voxels or frames of a volume or
    video, and `pictures` are the hashes of some pictures of it (`medtune.data.prepared.decoded_content`). Items that
    are shown together are rows with one media id, in their order.
    """

    media_id: str
    kind: MediaKind
    file: str
    boxes: tuple[Box, ...] = ()
    start_s: float | None = None
    end_s: float | None = None
    region: Box | None = None
    masks: tuple[tuple[str, str], ...] = ()
    encoding: str | None = None
    look: int | None = None
    content: str | None = None
    pictures: tuple[int, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files of the media item in the media folder."""
        others = (*(file for _, file in self.masks), self.encoding)
        return (self.file, *(file for file in others if file is not None))

    def ref(self, folder: Path) -> MediaRef:
        """Returns the reference by which the media item is loaded, given the media folder."""
        masks = tuple((organ, folder / file) for organ, file in self.masks)
        ref = MediaRef(folder / self.file, self.boxes, self.kind, self.start_s, self.end_s, self.region, masks)
        return ref if self.encoding is None else replace(ref, encoding=folder / self.encoding)


def data_hash(questions: Iterable[Question], media: Sequence[StoredMedia]) -> str:
    """Returns the SHA-256 over all rows of a prepared folder, hex, which is the same for all users.

    Patients count by their order of appearance, because their hashes differ between users.
    """
    patients: dict[str, int] = {}
    digest = hashlib.sha256()
    for q in questions:
        patient = patients.setdefault(q.patient_id, len(patients))
        row = [q.id, q.media_id, q.text, q.options, q.answer, q.answer_kind, q.unit, sorted(q.facets.items())]
        # An absent entry is left out of the hash, here and below, so that hashes of earlier runs stay valid.
        printed = [sorted(q.printed.items())] if q.printed else []
        turns = [q.turns] if q.turns else []
        language = [q.language] if q.language != ENGLISH else []
        digest.update(json.dumps([*row, patient, q.split, *printed, *turns, *language]).encode() + b"\n")
    for item in media:
        # What a file shows follows from the file, which has its content in its name.
        *said, encoding = item[: item._fields.index("look")]
        digest.update(json.dumps(said if encoding is None else [*said, encoding]).encode() + b"\n")
    return digest.hexdigest()


def computed_hash(folder: Path) -> str:
    """Returns the `data_hash` of the rows that a prepared folder holds now; 400,000 questions take 7 s."""
    table = map_table(folder / QUESTIONS)
    questions = read_questions(table.slice(start, ROWS) for start in range(0, len(table), ROWS))
    return data_hash(questions, list(read_media(map_table(folder / MEDIA))))


def write_tables(folder: Path, questions: Sequence[Question], media: Sequence[StoredMedia]) -> None:
    """Writes questions.arrow and media.arrow, with the rows in the given order."""
    batches = (questions[start : start + ROWS] for start in range(0, len(questions), ROWS))
    _write_table(folder / QUESTIONS, _QUESTION_SCHEMA, map(_question_batch, batches))
    rows = {name: [getattr(item, name) for item in media] for name in _MEDIA_SCHEMA.names}
    _write_table(folder / MEDIA, _MEDIA_SCHEMA, [_batch(_MEDIA_SCHEMA, rows)])


def _question_batch(questions: Sequence[Question]) -> pa.RecordBatch:
    # As Python's objects they take twenty times the room.
    parts = [
        _batch(_QUESTION_SCHEMA, _question_columns(questions[start : start + _ROWS_AT_ONCE]))
        for start in range(0, len(questions), _ROWS_AT_ONCE)
    ]
    (whole,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return whole


def _batch(schema: pa.Schema, columns: Mapping[str, Sequence[object]]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _question_columns(questions: Iterable[Question]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {name: [] for name in _QUESTION_SCHEMA.names}
    for question in questions:
        for name, column in columns.items():
            value = getattr(question, name)
            if name in _MAPS:
                value = sorted(value.items())
            column.append([turn._asdict() for turn in value] if name == "turns" else value)
    return columns


def map_table(path: Path) -> pa.Table:
    """Returns a table of a prepared folder, validated and mapped into memory; no row is made yet."""
    schema = _QUESTION_SCHEMA if path.name == QUESTIONS else _MEDIA_SCHEMA
    try:
        # Without it, an offset that leads out of the file would end the process when a row is read. What is read for it
        # is not mapped, and so leaves the memory again.
        with pa.OSFile(str(path)) as file:
            batches = pa.ipc.open_file(file)
            for number in range(batches.num_record_batches):
                batches.get_batch(number).validate(full=True)
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path}: this table is missing or damaged ({type(error).__name__}). {AGAIN}") from error
    if not table.schema.equals(schema):
        raise ValueError(f"{path}: this table has other columns than medtune writes. {AGAIN}")
    return table


def read_questions(tables: Iterable[pa.Table]) -> Iterator[Question]:
    """Yields the questions of some tables.

    Equal values are one object, without which 2,000,000 questions would take three times the memory.
    """
    values, maps = dict[Hashable, Any](), dict[Hashable, dict[str, str]]()
    one = values.setdefault
    for table in tables:
        if len(values) + len(maps) > _MOST_SHARED:
            values.clear()
            maps.clear()
        columns = (table.column(name).to_pylist() for name in _QUESTION_SCHEMA.names)
        for row in zip(*columns, strict=True):
            id_, media_id, text, options, answer, kind, unit, facets, printed, patient, split, turns, language = row
            pairs = tuple(facets), tuple(printed)
            for each in pairs:
                if each not in maps:
                    maps[each] = {one(name, name): one(value, value) for name, value in each}
            yield Question(
                id=id_,
                media_id=one(media_id, media_id),
                text=one(text, text),
                options=one(options := tuple(one(each, each) for each in options), options),
                answer=one(answer, answer),
                answer_kind=one(kind, kind),
                patient_id=one(patient, patient),
                facets=maps[pairs[0]],
                unit=one(unit, unit),
                split=one(split, split),
                printed=maps[pairs[1]],
                turns=tuple(Turn(**turn) for turn in turns),
                language=one(language, language),
            )


def read_media(table: pa.Table) -> Iterator[StoredMedia]:
    columns = (table.column(name).to_pylist() for name in _MEDIA_SCHEMA.names)
    for media_id, kind, file, boxes, start_s, end_s, region, masks, encoding, *shows in zip(*columns, strict=True):
        look, content, pictures = shows
        drawn = tuple(Box(*box) for box in boxes)
        seen = None if region is None else Box(*region)
        yield StoredMedia(
            media_id, kind, file, drawn, start_s, end_s, seen, tuple(masks), encoding, look, content, tuple(pictures)
        )


def _write_table(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    # Arrow gets an open file: a full disk then raises Python's own OSError, with its number.
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            # Arrow keeps what it took.
            pa.default_memory_pool().release_unused()
