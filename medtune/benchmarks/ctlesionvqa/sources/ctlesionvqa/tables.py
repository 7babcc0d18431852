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
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from medtune.data.json_text import json_value
from medtune.data.raw.lettered_options import find_option, split_options
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Place

SPELLINGS: Mapping[str, str] = {
    "bdmap_id": "image_id", "multiple_choice_question": "mc_question", "multi_choice_question": "mc_question",
    "correct_choice": "correct_option", "type": "question_type", "subtype": "question_subtype",
    "manufacturer": "scanner", "phase": "contrast", "ct_phase": "contrast",
}  # fmt: skip
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
# A digit after a letter, "^" or a point is not the start of a number but belongs to a unit ("cm3", "cm^3") or a number.
_NUMBER = re.compile(r"(?<![\w.^])(?:[-+]\s?)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\d])")
_UNIT = re.compile(r"\s*(cm\s?(?:\^3|³|3)|cc|ml|hu|cm|mm|%)(?!\w)", re.I)
_CORRECT = re.compile(r"\(?([A-Z])[.):]\s")
INPUT_MODE = "input_mode"
"""The cell with the kit's name of what is shown of a scan; only rows that show a clip or a slice have it."""


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
    """Yields the rows of a table, with only the columns that medtune uses, under our names."""
    name = str(file.relative_to(root))
    for line, values in enumerate(_rows(file), start=1):
        yield Row(Place(name, line), values)


def cell(row: Row, name: str) -> str:
    """Returns the text of a column; "" if the column is missing or the cell is empty."""
    return text(row.values.get(name))


def text(value: object) -> str:
    """Returns a cell as text: "" for an empty cell, and whole numbers without ".0".

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
    found = json_value(file.read_text("utf-8"))
    rows = found.get("questions") if isinstance(found, dict) else found
    return map(_object, rows if isinstance(rows, list) else [])


def _json_lines(file: Path) -> Iterator[Mapping[str, object]]:
    with file.open(encoding="utf-8") as opened:
        yield from (_object(json_value(line)) for line in opened if line.strip())


def _object(row: object) -> Mapping[str, object]:
    items = row.items() if isinstance(row, dict) else ()
    return {ours: value for name, value in items if (ours := _ours(name))}


@lru_cache(maxsize=1024)
def _ours(name: str) -> str | None:
    plain = re.sub(r"[\s_]+", "_", name.strip().lower())
    ours = SPELLINGS.get(plain, plain)
    return ours if ours in _KEPT else None


_READERS = {".csv": _csv, ".parquet": _parquet, ".json": _json, ".jsonl": _json_lines}


class WrittenNumber(NamedTuple):
    value: float
    text: str  # The number as a plain text without thousands separators.
    unit: str | None  # The unit as it is written; None if there is none.


class SplitChoice(NamedTuple):
    """A multiple-choice question, split into its text, its options and the right option."""

    text: str
    options: tuple[str, ...]
    answer: str


def number_and_unit(answer: str) -> WrittenNumber | None:
    """Returns the only number of an answer, or None if there is none or more than one.

    >>> [number_and_unit(answer) for answer in ("1,293.7 cm^3", "Slice 174", "-32.4")]
    [WrittenNumber(value=1293.7, text='1293.7', unit='cm^3'), WrittenNumber(value=174.0, text='174', unit=None), \
WrittenNumber(value=-32.4, text='-32.4', unit=None)]
        >>> [number_and_unit(answer) for answer in ("none", "2 or 3", "1.2.3")]
        [None, None, None]
    """
    found = list(_NUMBER.finditer(answer.replace("\u2212", "-")))
    if len(found) != 1 or answer[found[0].end() :].startswith("."):
        return None
    text = found[0][0].replace(",", "").replace(" ", "").removeprefix("+")
    unit = _UNIT.match(answer, found[0].end())
    return WrittenNumber(float(text), text, unit[1] if unit else None)


def number(row: Row) -> WrittenNumber:
    """Returns the number in a row's answer, with the unit of the question if the answer states none."""
    found = number_and_unit(cell(row, "answer"))
    if found is None:
        raise row.place.error(f"wanted one number, got {cell(row, 'answer')!r}", field="answer")
    asked = re.search(r"(?:\(|\bin )\s*" + _UNIT.pattern, cell(row, "question"), re.I)
    return found if found.unit or not asked else found._replace(unit=asked[1])


def choice(row: Row) -> SplitChoice:
    """Returns a row's multiple-choice question, whose options are read from the question's text."""
    lettered = split_options(cell(row, "mc_question"))
    if lettered is None or not all(lettered.options) or len(set(lettered.options)) < len(lettered.options):
        raise row.place.error("wanted two or more different options after A, B, ...", field="mc_question")
    said = cell(row, "correct_option")
    letter = _CORRECT.match(said)
    answer = find_option(letter[1] if letter else said, lettered.options)
    if answer is None:
        raise row.place.error(f"{said!r} is not among the {len(lettered.options)} options", field="correct_option")
    return SplitChoice(lettered.text, lettered.options, answer)
