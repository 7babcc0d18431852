"""Writes and reads origins.arrow, which says which row of the raw files each question of a prepared folder was.

A row is known by a keyed hash of its id in the raw files and by its place among the rows, so that predictions of other
tools, which name the raw rows, can be matched. No id or file name of the raw files enters the prepared folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from medtune.data.prepared.privacy import hashed_patient, patient_key
from medtune.data.types import Question

ORIGINS = "origins.arrow"
_SCHEMA = pa.schema([("question_id", pa.string()), ("origin", pa.string()), ("place", pa.int64())])
# A row's id and a patient's must not have one hash.
_KIND = "row of "


@dataclass(frozen=True, slots=True)
class Origins:
    """The raw rows that the questions of a prepared folder were.

    Attributes:
        source: The name of the source.
        places: The number of each question in the order of the raw files, by question id.
    """

    source: str
    places: Mapping[str, int]
    _by_origin: Mapping[str, str]

    def find(self, row_id: str) -> str | None:
        """Returns the id of the question that was a raw row, by the row's own id; None if there is none."""
        return self._by_origin.get(_hashed(patient_key(), self.source, row_id))


def write_origins(folder: Path, source: str, raw_ids: Sequence[str], questions: Sequence[Question]) -> None:
    """Writes origins.arrow; `raw_ids` are the ids of the questions in the raw files, in the order of `questions`."""
    key = patient_key()
    columns = {
        "question_id": [question.id for question in questions],
        "origin": [_hashed(key, source, raw_id) for raw_id in raw_ids],
        "place": list(range(len(raw_ids))),
    }
    with (folder / ORIGINS).open("wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_table(pa.table(columns, schema=_SCHEMA))


def read_origins(folder: Path, source: str) -> Origins:
    """Returns the raw rows that the questions of a prepared folder were."""
    path = folder / ORIGINS
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path}: this table is missing or damaged. Run `medtune prepare` again.") from error
    ids = table.column("question_id").to_pylist()
    places = dict(zip(ids, table.column("place").to_pylist(), strict=True))
    return Origins(source, places, dict(zip(table.column("origin").to_pylist(), ids, strict=True)))


def _hashed(key: bytes, source: str, row_id: str) -> str:
    return hashed_patient(key, _KIND + source, row_id)
