"""metrics.csv, the curves of a run: a line for each value, with the step, the phase, the name and the value.

A crash of the machine may have left its last lines as zeros.
"""

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from medtune.eval.results.typed_json import AGAIN

HEADER = ("step", "phase", "name", "value")
_CURE = "Remove the lines from this one on, as `--resume` computes later steps again. " + AGAIN
_EARLIER = "A version before 2026-11-30 had a column for each name: move the file away, and the report has no curves."
_MOST_DIGITS = 18


class MetricRow(NamedTuple):
    step: int
    name: str  # The name with its phase in front, such as "val/accuracy".
    value: float  # May be NaN or infinite.


def metric_lines(rows: Iterable[MetricRow]) -> str:
    r"""Returns rows as lines of metrics.csv.

    >>> metric_lines([MetricRow(4, "val/task=plane/accuracy", 0.5)])
    '4,val,task=plane/accuracy,0.5\n'
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        phase, slash, name = row.name.partition("/")
        writer.writerow((row.step, phase if slash else "", name if slash else row.name, repr(float(row.value))))
    return text.getvalue()


def read_metrics(path: Path) -> list[MetricRow]:
    """Returns the rows of a run's metrics.csv, in the order in which they were written."""
    rows: list[MetricRow] = []
    content = path.read_bytes()
    if (zero := content.find(0)) >= 0:
        line = content.count(b"\n", 0, zero) + 1
        raise ValueError(f"{path}: not the table of a run; line {line}: it holds zeros. {_CURE}")
    try:
        with io.StringIO(content.decode("utf-8"), newline="") as file:
            table = csv.reader(file)
            header = next(table, list(HEADER))
            if tuple(header) != HEADER:
                wanted = f"wanted the columns {', '.join(HEADER)}, got {', '.join(header)!r:.60}"
                cure = _EARLIER if HEADER[0] in header else _CURE
                raise ValueError(f"{path}: not the table of a run; line 1: {wanted}. {cure}")
            for cells in table:
                rows.append(_row(cells, where=f"{path}: not the table of a run; line {len(rows) + 2}"))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not the table of a run; line {len(rows) + 2} ({error}). {_CURE}") from error
    return rows


def _row(cells: list[str], *, where: str) -> MetricRow:
    if len(cells) != len(HEADER):
        raise ValueError(f"{where}: wanted {len(HEADER)} cells, got {len(cells)}. {_CURE}")
    step, phase, name, value = cells
    if not step.isdecimal() or len(step) > _MOST_DIGITS:
        raise ValueError(f"{where}: field 'step' wants a whole number, got {step!r:.60}. {_CURE}")
    if not name or not _is_number(value):
        raise ValueError(f"{where}: field 'value' wants a number behind a name, got {value!r:.60}. {_CURE}")
    return MetricRow(int(step), f"{phase}/{name}" if phase else name, float(value))


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text)) or text.strip().lower() == "nan"
    except ValueError:
        return False
