"""Writes and reads origins.arrow, which says which row of the raw files each question of a prepared folder was.

A row is known by a keyed hash of its id in the raw files, so that predictions of other tools, which name the raw rows,
can be matched. No id or file name of the raw files enters the prepared folder.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from medtune.data.prepared.question_rows import ROWS, hashed_patient, patient_key
from medtune.data.types import Question

ORIGINS = "origins.arrow"
_SCHEMA = pa.schema([("question_id", pa.string()), ("origin", pa.string())])
# A row's id and a patient's must not have one hash.
_KIND = "row of "


@dataclass(frozen=True, slots=True)
class Origins:
    """The raw rows that the questions of a prepared folder were."""

    source: str
    _by_origin: Mapping[str, str]

    def find(self, row_id: str) -> str | None:
        """Returns the id of the question that was a raw row, by the row's own id; None if there is none."""
        return self._by_origin.get(_hashed(patient_key(), self.source, row_id))


def write_origins(folder: Path, source: str, raw: Iterable[Question], questions: Iterable[Question]) -> None:
    """Writes origins.arrow; `raw` are the questions as they were in the raw files, in the order of `questions`."""
    key = patient_key()
    rows = ((question.id, _hashed(key, source, before.id)) for before, question in zip(raw, questions, strict=True))
    with (folder / ORIGINS).open("wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        while batch := list(islice(rows, ROWS)):
            writer.write_table(pa.table(list(map(list, zip(*batch, strict=True))), schema=_SCHEMA))


def read_origins(folder: Path, source: str) -> Origins:
    """Returns the raw rows that the questions of a prepared folder were."""
    path = folder / ORIGINS
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate(full=True)
        if not table.schema.equals(_SCHEMA):
            raise pa.ArrowInvalid("other columns")
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path}: this table is missing or damaged. Run `medtune prepare` again.") from error
    ids = table.column("question_id").to_pylist()
    return Origins(source, dict(zip(table.column("origin").to_pylist(), ids, strict=True)))


def _hashed(key: bytes, source: str, row_id: str) -> str:
    return hashed_patient(key, _KIND + source, row_id)
