"""Reads metrics.csv, the curves of a run, whose last lines a crash of the machine may have left as zeros."""

import csv
import io
import math
from pathlib import Path

from medtune.eval.results.typed_json import AGAIN

STEP = "step"


def read_metrics(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a run's metrics.csv; every one has a step, and numbers or nothing beside it."""
    rows: list[dict[str, str]] = []
    content = path.read_bytes()
    if (zero := content.find(0)) >= 0:
        line = content.count(b"\n", 0, zero) + 1
        raise ValueError(f"{path}: not the table of a run; line {line}: it holds zeros. {_CURE}")
    try:
        with io.StringIO(content.decode("utf-8"), newline="") as file:
            table = csv.DictReader(file)
            if content and STEP not in (table.fieldnames or ()):
                raise ValueError(f"{path}: not the table of a run; line 1: no column {STEP!r}. {_CURE}")
            for row in table:
                _check(row, where=f"{path}: not the table of a run; line {len(rows) + 2}")
                rows.append(row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not the table of a run; line {len(rows) + 2} ({error}). {_CURE}") from error
    return rows


_CURE = "Remove the lines from this one on, as `--resume` computes later steps again. " + AGAIN


def _check(row: dict[str, str], *, where: str) -> None:
    if not (row.get(STEP) or "").isdecimal() or len(row[STEP]) > _MOST_DIGITS:
        raise ValueError(f"{where}: field {STEP!r} wants a whole number, got {row.get(STEP)!r:.60}. {_CURE}")
    for name, text in row.items():
        # csv keeps further cells under None, and missing ones as None.
        if name is None or (text and not _is_number(text)):
            raise ValueError(f"{where}: field {name!r} wants a number, got {text!r:.60}. {_CURE}")


_MOST_DIGITS = 18


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text)) or text.strip().lower() == "nan"
    except ValueError:
        return False
