"""Defines tables of results, and formats them as plain text for the terminal and for JSON files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results.

    Attributes:
        title: The line above the table.
        columns: Names of the columns; in the table of a paper, in the order of the paper.
        rows: The rows, with one cell per column; None if there is no value.
        notes: Sentences below the table, for instance about contradictions in the paper.
        digits: Number of decimals.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    digits: int = 3


def table_text(table: Table) -> str:
    """Returns the table as plain text, with texts aligned to the left and numbers to the right.

    Example:
        >>> print(table_text(Table("Accuracy", ("model", "PI"), (("ours", 0.5), ("GPT-5", None)), digits=2)))
        Accuracy
        model    PI
        -----------
        ours   0.50
        GPT-5     -
    """
    cells = [table.columns, *([_text(cell, table.digits) for cell in row] for row in table.rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.columns))]
    is_text = [any(isinstance(row[column], str) for row in table.rows) for column in range(len(table.columns))]
    lines = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join([table.title, *lines, *table.notes])


def finite_table(table: Table) -> Table:
    """Returns the table with None for numbers that are not finite, which JSON cannot represent."""
    return replace(table, rows=tuple(tuple(map(_finite, row)) for row in table.rows))


def rank(value: float, others: Sequence[float], *, higher_is_better: bool = True) -> int:
    """Returns the place of `value` among itself and `others`, 1 for the best; ties share the better place.

    Example:
        >>> rank(0.5, [0.9, 0.5, 0.1]), rank(0.5, [0.9, 0.1], higher_is_better=False)
        (2, 2)
    """
    better = [other > value if higher_is_better else other < value for other in others]
    return 1 + sum(better)


def finite_number(value: float | None) -> float | None:
    """Returns the number, or None for one that is not finite, which JSON cannot represent."""
    return value if value is not None and math.isfinite(value) else None


def _text(cell: Cell, digits: int) -> str:
    if cell is None:
        return "-"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _finite(cell: Cell) -> Cell:
    return finite_number(cell) if isinstance(cell, float) else cell
