"""Which row of the source's own files each question was: a keyed hash of its id there, and its place among them.

Other tools' predictions name the rows of the benchmark's own files. No id or file name of a source enters the folder.
"""

from __future__ import annotations

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
    """The rows of a prepared folder.

    Attributes:
        places: Question id -> number in the source's order.
    """

    source: str
    places: Mapping[str, int]
    _by_origin: Mapping[str, str]

    def find(self, row_id: str) -> str | None:
        """Returns the question of a row of the source's files, by the row's own id; None where no question was it."""
        return self._by_origin.get(_hashed(patient_key(), self.source, row_id))


def write_origins(folder: Path, source: str, raw_ids: Sequence[str], questions: Sequence[Question]) -> None:
    """Writes origins.arrow; `raw_ids` are the source's own ids of the questions, in the source's order."""
    key = patient_key()
    columns = {
        "question_id": [question.id for question in questions],
        "origin": [_hashed(key, source, raw_id) for raw_id in raw_ids],
        "place": list(range(len(raw_ids))),
    }
    with (folder / ORIGINS).open("wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_table(pa.table(columns, schema=_SCHEMA))


def read_origins(folder: Path, source: str) -> Origins:
    """Returns the rows of a prepared folder.

    Raises:
        ValueError: The table is missing or damaged.
    """
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
