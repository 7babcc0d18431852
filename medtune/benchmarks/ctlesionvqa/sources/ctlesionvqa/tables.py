"""Reads CTLesionVQA's question tables (CSV, parquet, JSON, JSON lines) into rows with one spelling of the columns.

Source: the columns of v1 are those of Schuture/DeepTumorVQA, branch v1, README.md; of v2 those of branch v2,
HF_README.md; "Image ID" is its scripts/extract_train_videos.py; "question type" and "question subtype" are a third
party's copies.
"""

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from medtune.data.raw.row_errors import Reject, RowError

SPELLINGS: Mapping[str, str] = {
    "bdmap_id": "image_id",
    "multiple_choice_question": "mc_question",
    "multi_choice_question": "mc_question",
    "correct_choice": "correct_option",
    "type": "question_type",
    "subtype": "question_subtype",
    "manufacturer": "scanner",
    "phase": "contrast",
    "ct_phase": "contrast",
}
"""Our name of a column by its other spellings, in small letters with underscores."""
_FOLDERS = (".", "benchmark", "train", "data", "Data")
_SUFFIXES = (".csv", ".parquet", ".json", ".jsonl")
_BATCH = 20_000
_EMPTY = frozenset({"", "nan", "none", "null", "n/a"})
_LONGEST_EMPTY = max(map(len, _EMPTY))
_KEPT = frozenset(
    {"image_id", "question", "answer", "mc_question", "correct_option", "organ", "question_type", "question_subtype"}
    | {"sex", "age", "scanner", "contrast", "split", "qid", "spacing", "shape"}
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        file: The table's path relative to the folder.
        line: The number of the row in its file, from 1.
        values: The cells by our names of the columns, as `text` writes them.
        untouched: The same cells unchanged, as the file has them.
    """

    file: str
    line: int
    values: Mapping[str, str]
    untouched: Mapping[str, object]

    def get(self, name: str) -> str:
        """Returns the text of a column; "" if the column is missing or the cell is empty."""
        return self.values.get(name, "")

    def error(self, name: str, message: str) -> RowError:
        """Returns an error about the cell of a column."""
        return RowError(Reject(self.file, self.line, name, message))


def question_files(root: Path) -> tuple[list[Path], list[Path]]:
    """Returns the tables of questions in a folder, and the other tables that lie beside them."""
    found, others = list[Path](), list[Path]()
    files = [file for folder in _FOLDERS for file in sorted((root / folder).glob("*.*")) if file.suffix in _SUFFIXES]
    # On some systems "data" and "Data" are the same folder.
    for file in {file.resolve(): file for file in files}.values():
        first = next(_rows(file), {})
        is_twin = file.suffix == ".jsonl" and file.with_suffix(".json").is_file()
        is_asked = "image_id" in first and ("question" in first or "mc_question" in first)
        (found if is_asked and not is_twin else others).append(file)
    return found, others


def read_rows(root: Path, file: Path) -> Iterator[Row]:
    """Yields the rows of a table, with only the columns that medtune uses."""
    name = str(file.relative_to(root))
    for line, values in enumerate(_rows(file), start=1):
        yield Row(name, line, {column: text(value) for column, value in values.items()}, values)


def copied_row(cells: Mapping[str, str]) -> Row:
    """Returns a row that another tool has copied, given its cells by the column names of that tool."""
    copied = _object(dict(cells))
    return Row("", 0, {column: text(value) for column, value in copied.items()}, copied)


def text(value: object) -> str:
    """Returns a cell as text: "" for an empty cell, and whole numbers without ".0".

    Example:
        >>> [text(value) for value in (" Yes ", None, float("nan"), 61.0, 12.5, True, "nan")]
        ['Yes', '', '', '61', '12.5', 'True', '']
    """
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else ""
    said = "" if value is None else str(value).strip()
    return "" if len(said) <= _LONGEST_EMPTY and said.lower() in _EMPTY else said


def _rows(file: Path) -> Iterator[Mapping[str, object]]:
    try:
        yield from _READERS[file.suffix](file)
    except (csv.Error, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file}: a damaged table ({type(error).__name__}: {error}). Download it again.") from error


def _csv(file: Path) -> Iterator[Mapping[str, object]]:
    with file.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened)
        wanted = [(ours, place) for place, name in enumerate(next(reader, [])) if (ours := _ours(name))]
        for row in reader:
            yield {ours: row[place] for ours, place in wanted if place < len(row)}


def _parquet(file: Path) -> Iterator[Mapping[str, object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        names = {name: ours for name in table.schema_arrow.names if (ours := _ours(name))}
        for batch in table.iter_batches(_BATCH, columns=list(names)):
            columns = [batch.column(name).to_pylist() for name in names]
            for row in zip(*columns, strict=True):
                yield dict(zip(names.values(), row, strict=True))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{file}: a damaged parquet file ({type(error).__name__}). Download it again.") from error


def _json(file: Path) -> Iterator[Mapping[str, object]]:
    found = json.loads(file.read_text("utf-8"))
    rows = found.get("questions") if isinstance(found, dict) else found
    return map(_object, rows if isinstance(rows, list) else [])


def _json_lines(file: Path) -> Iterator[Mapping[str, object]]:
    with file.open(encoding="utf-8") as opened:
        yield from (_object(json.loads(line)) for line in opened if line.strip())


def _object(row: object) -> Mapping[str, object]:
    items = row.items() if isinstance(row, dict) else ()
    return {ours: value for name, value in items if (ours := _ours(name))}


@lru_cache(maxsize=1024)
def _ours(name: str) -> str | None:
    plain = re.sub(r"[\s_]+", "_", name.strip().lower())
    ours = SPELLINGS.get(plain, plain)
    return ours if ours in _KEPT else None


_READERS = {".csv": _csv, ".parquet": _parquet, ".json": _json, ".jsonl": _json_lines}
