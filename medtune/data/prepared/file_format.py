"""The files of a prepared folder: manifest.json, questions.arrow, media.arrow, origins.arrow and, if any, two more.

rejects.jsonl lists what could not be taken, prompts.json holds official prompts.

Both tables are uncompressed Arrow IPC files, so that opening maps them into memory and reads nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from medtune.data.prepared.near_duplicates import NearDuplicate, NearDuplicates
from medtune.data.prepared.question_origins import ORIGINS
from medtune.data.prepared.rejects import REJECTS
from medtune.data.prepared.splits import Fractions
from medtune.data.types import Box, MediaKind, MediaRef, Provenance, Question, Split, UnofficialSplit

FORMAT_VERSION = 6
MANIFEST = "manifest.json"
QUESTIONS = "questions.arrow"
MEDIA = "media.arrow"
MEDIA_FOLDER = "media"
PROMPTS = "prompts.json"
CACHE_FOLDER = "cache"
ENTRIES = frozenset({MANIFEST, QUESTIONS, MEDIA, MEDIA_FOLDER, REJECTS, PROMPTS, ORIGINS, CACHE_FOLDER})

# Questions are written so many at a time: all columns of 800,000 at once take another gigabyte.
_ROWS = 50_000
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
    ]
)


class StoredMedia(NamedTuple):
    """A row of media.arrow: a `MediaRef` whose files lie in the media folder."""

    media_id: str
    kind: MediaKind
    file: str
    boxes: tuple[Box, ...] = ()
    start_s: float | None = None
    end_s: float | None = None
    region: Box | None = None
    masks: tuple[tuple[str, str], ...] = ()
    encoding: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All its files."""
        others = (*(file for _, file in self.masks), self.encoding)
        return (self.file, *(file for file in others if file is not None))

    def ref(self, folder: Path) -> MediaRef:
        """Returns what is loaded, given the media folder."""
        masks = tuple((organ, folder / file) for organ, file in self.masks)
        ref = MediaRef(folder / self.file, self.boxes, self.kind, self.start_s, self.end_s, self.region, masks)
        return ref if self.encoding is None else replace(ref, encoding=folder / self.encoding)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a prepared folder says about itself.

    Attributes:
        patient_unit: What stands for a patient, in the source's words.
        limit: At most how many patients were taken; None for all.
        counts: Questions by split and task.
        num_patients: By split.
        identical_media: Files whose content another file has too; their patients share a split.
        notes: What the source left out on purpose.
        prompts: "ours", or which official prompts lie in prompts.json and which scenarios these leave to our wording;
            they are used in every run on this folder.
        unofficial_split: How a set for evaluation alone was divided nevertheless; None where it was not.
        rejected: Questions that could not be taken, by kind; rejects.jsonl has them one by one.
        data_hash: SHA-256 over all rows, the same for two users with the same files.
    """

    format_version: int
    medtune_version: str
    benchmark: str
    source: str
    title: str
    provenance: Provenance
    licence: str
    url: str
    patient_unit: str
    seed: int
    limit: int | None
    fractions: Fractions
    counts: Mapping[Split, Mapping[str, int]]
    num_patients: Mapping[Split, int]
    num_media: int
    identical_media: int
    near_duplicates: NearDuplicates
    notes: tuple[str, ...]
    prompts: str
    unofficial_split: UnofficialSplit | None
    rejected: Mapping[str, int]
    data_hash: str


def data_hash(questions: Sequence[Question], media: Sequence[StoredMedia]) -> str:
    """Returns the SHA-256 over all rows, hex; patients count by order of appearance, as their hashes are the user's."""
    patients: dict[str, int] = {}
    digest = hashlib.sha256()
    for q in questions:
        patient = patients.setdefault(q.patient_id, len(patients))
        row = [q.id, q.media_id, q.text, q.options, q.answer, q.answer_kind, q.unit, sorted(q.facets.items())]
        # What is not there leaves no trace, here and below: runs know their data by this hash.
        printed = [sorted(q.printed.items())] if q.printed else []
        digest.update(json.dumps([*row, patient, q.split, *printed]).encode() + b"\n")
    for item in media:
        said = item if item.encoding is not None else item[:-1]
        digest.update(json.dumps(said).encode() + b"\n")
    return digest.hexdigest()


def write_tables(folder: Path, questions: Sequence[Question], media: Sequence[StoredMedia]) -> None:
    """Writes questions.arrow and media.arrow, rows in the order given."""
    parts = (questions[start : start + _ROWS] for start in range(0, len(questions), _ROWS))
    _write_table(folder / QUESTIONS, _QUESTION_SCHEMA, (_question_columns(part) for part in parts))
    rows = {name: [getattr(item, name) for item in media] for name in _MEDIA_SCHEMA.names}
    _write_table(folder / MEDIA, _MEDIA_SCHEMA, [rows])


def _question_columns(questions: Sequence[Question]) -> dict[str, list[object]]:
    columns = {name: [getattr(q, name) for q in questions] for name in _QUESTION_SCHEMA.names if name not in _MAPS}
    return columns | {name: [sorted(getattr(q, name).items()) for q in questions] for name in _MAPS}


def map_table(path: Path) -> pa.Table:
    """Returns a table mapped into memory; no row is read yet.

    Raises:
        ValueError: The file is missing or damaged, or has other columns.
    """
    schema = _QUESTION_SCHEMA if path.name == QUESTIONS else _MEDIA_SCHEMA
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path}: this table is missing or damaged ({type(error).__name__}). {AGAIN}") from error
    if not table.schema.equals(schema):
        raise ValueError(f"{path}: this table has other columns than medtune writes. {AGAIN}")
    return table


AGAIN = "Run `medtune prepare` again."


def read_questions(table: pa.Table) -> Iterator[Question]:
    """Yields the rows of (a slice of) questions.arrow."""
    columns = (table.column(name).to_pylist() for name in _QUESTION_SCHEMA.names)
    for row in zip(*columns, strict=True):
        question_id, media_id, text, options, answer, kind, unit, facets, printed, patient, split = row
        yield Question(
            id=question_id,
            media_id=media_id,
            text=text,
            options=tuple(options),
            answer=answer,
            answer_kind=kind,
            patient_id=patient,
            facets=dict(facets),
            unit=unit,
            split=split,
            printed=dict(printed),
        )


def read_media(table: pa.Table) -> Iterator[StoredMedia]:
    """Yields the rows of media.arrow."""
    columns = (table.column(name).to_pylist() for name in _MEDIA_SCHEMA.names)
    for media_id, kind, file, boxes, start_s, end_s, region, masks, encoding in zip(*columns, strict=True):
        drawn = tuple(Box(*box) for box in boxes)
        seen = None if region is None else Box(*region)
        yield StoredMedia(media_id, kind, file, drawn, start_s, end_s, seen, tuple(masks), encoding)


def write_prompts(folder: Path, templates: Mapping[str, str]) -> None:
    """Writes prompts.json: the official templates by scenario, verbatim."""
    text = json.dumps(dict(sorted(templates.items())), indent=1, ensure_ascii=False)
    (folder / PROMPTS).write_text(text + "\n", encoding="utf-8")


def read_prompts(folder: Path) -> Mapping[str, str] | None:
    """Returns the official templates by scenario; None where the folder has none.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / PROMPTS
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: these prompts are damaged ({type(error).__name__}). {AGAIN}") from error
    return {str(key): str(text) for key, text in found.items()}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes manifest.json; it holds no time and no path, so that two runs write the same bytes."""
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a prepared folder.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: The folder was not prepared by medtune, or by a version that writes another format.
    """
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: there is no such folder. Make it with `medtune prepare BENCHMARK --from DIR --out {folder}`."
        )
    path = folder / MANIFEST
    try:
        read = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{folder}: this folder was not prepared by medtune (it has no {MANIFEST}). "
            f"Give a prepared one, or make it with `medtune prepare BENCHMARK --from {folder} --out DIR`."
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: this manifest is damaged ({type(error).__name__}). {AGAIN}") from error
    version = read.get("format_version") if isinstance(read, dict) else None
    if not isinstance(version, int):
        raise ValueError(f"{path}: this is no manifest of medtune (it states no format_version). {AGAIN}")
    if version != FORMAT_VERSION:
        todo = "Upgrade medtune, or run" if version > FORMAT_VERSION else "Run"
        raise ValueError(
            f"{path}: wanted format {FORMAT_VERSION}, this folder has format {version}, written by medtune "
            f"{read.get('medtune_version')}. {todo} `medtune prepare` again."
        )
    names = {field.name for field in fields(Manifest)}
    if set(read) != names:
        wrong = ", ".join(sorted(names ^ set(read)))
        raise ValueError(f"{path}: these entries are missing or unknown: {wrong}. {AGAIN}")
    try:
        num_pairs, max_distance, closest = read["near_duplicates"]
        pairs = tuple(NearDuplicate(*pair) for pair in closest)
        lists = {"fractions": Fractions(*read["fractions"]), "notes": tuple(read["notes"])}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: this manifest is damaged ({type(error).__name__}). {AGAIN}") from error
    return Manifest(**(read | lists | {"near_duplicates": NearDuplicates(num_pairs, max_distance, pairs)}))


def _write_table(path: Path, schema: pa.Schema, parts: Iterable[Mapping[str, Sequence[object]]]) -> None:
    # Arrow gets an open file: a full disk then raises Python's own OSError, with its number.
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch([pa.array(part[f.name], f.type) for f in schema], schema=schema))
