"""Defines tables of results, takes their mean over passes, and formats them as plain text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from medtune.eval.metric import passes_text

Cell = str | float | int | None
RANK = "rank"


@dataclass(frozen=True, slots=True)
class Agreement:
    """True numbers with the answers, which the report draws as Bland and Altman's figure.

    Attributes:
        pairs: A truth and its answer each, a part of them where there are many.
        bias: The mean of answer - truth.
        low: The lower limit of agreement.
        high: The upper limit of agreement.
    """

    title: str
    unit: str
    pairs: tuple[tuple[float, float], ...]
    bias: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results.

    Attributes:
        title: The line above the table.
        columns: Names of the columns; in the table of a paper, in the order of the paper.
        rows: The rows, with one cell per column; None if there is no value.
        notes: Sentences below the table, for instance about contradictions in the paper.
        digits: Number of decimals.
        agreements: What the report draws beside the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    digits: int = 3
    agreements: tuple[Agreement, ...] = ()


def table_text(table: Table) -> str:
    """Returns the table as plain text, with texts aligned to the left and numbers to the right.

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
    rows = ((finite_number(cell) if isinstance(cell, float) else cell for cell in row) for row in table.rows)
    return replace(table, rows=tuple(map(tuple, rows)))


def rank(value: float, others: Sequence[float], *, higher_is_better: bool = True) -> int:
    """Returns the place of `value` among itself and `others`, 1 for the best; ties share the better place.

    >>> rank(0.5, [0.9, 0.5, 0.1]), rank(0.5, [0.9, 0.1], higher_is_better=False)
    (2, 2)
    """
    better = [other > value if higher_is_better else other < value for other in others]
    return 1 + sum(better)


def beside_published(table: Table, ours: Sequence[tuple[Cell, ...]], *, unlike_published: str) -> tuple[Table, ...]:
    """Returns a published table with our rows below the published ones, or in a table of their own.

    Args:
        table: The table with the published rows; a column "rank" comes last, if there is one.
        unlike_published: Why our rows must not stand among the published ones; "" if they may.
    """
    if not unlike_published:
        return (replace(table, rows=(*table.rows, *ours)),)
    has_rank = table.columns[-1] == RANK
    rows = tuple(row[:-1] if has_rank else row for row in ours)
    note = f"Not among the published rows, and without a rank: {unlike_published}."
    alone = replace(
        table,
        title=f"{table.title}; this model alone",
        columns=table.columns[:-1] if has_rank else table.columns,
        rows=rows,
        notes=(note,),
    )
    published = replace(table, title=f"{table.title}; as published")
    return (published, alone) if rows else (published,)


def beside_published_columns(
    table: Table, *, ours: Sequence[str], labels: int, unlike_published: str
) -> tuple[Table, ...]:
    """Returns a table whose columns `ours` stand behind the published ones, or two tables with the columns apart.

    Args:
        table: The table; its last columns are `ours` and "rank".
        ours: Our columns, the model's own one last.
        labels: Number of columns at the left that name a row.
        unlike_published: Why our columns must not stand beside the published ones; "" if it may.
    """
    if not unlike_published:
        return (table,)
    own = slice(-1 - len(ours), -1)
    if table.columns[own.start :] != (*ours, RANK):
        raise ValueError(f"wanted a table that ends with the columns {ours!r} and {RANK!r}, got {table.columns}")
    note = f"Not beside the published columns, and without a rank: {unlike_published}."
    published = replace(
        table,
        title=f"{table.title}; as published",
        columns=table.columns[: own.start],
        rows=tuple(row[: own.start] for row in table.rows),
        notes=(),
    )
    alone = replace(
        table,
        title=f"{table.title}; this model alone",
        columns=(*table.columns[:labels], *ours),
        rows=tuple((*row[:labels], *row[own]) for row in table.rows if row[-2] is not None),
        notes=(*table.notes, note),
    )
    return (published, alone) if alone.rows else (published,)


def finite_number(value: float | None) -> float | None:
    """Returns the number, or None for one that is not finite, which JSON cannot represent."""
    return value if value is not None and math.isfinite(value) else None


def _text(cell: Cell, digits: int) -> str:
    if cell is None:
        return "-"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def mean_tables(passes: Sequence[Sequence[Table]]) -> list[Table]:
    """Returns the tables with the mean over the passes in each cell, and a note that says so where passes differ.

    Tables are matched by their titles, and rows by their position if the passes have equally many, else by their texts.
    A cell whose text or rank differs between passes shows all of them, and a cell without a value in one of the passes
    has none. Notes that differ are shown for each pass.
    """
    if len(passes) == 1:
        return list(passes[0])
    titles = dict.fromkeys(table.title for tables in passes for table in tables)
    found = [[table for tables in passes for table in tables if table.title == title] for title in titles]
    return [_mean_table(tables, num_passes=len(passes)) for tables in found]


def _mean_table(tables: Sequence[Table], *, num_passes: int) -> Table:
    first = tables[0]
    if all(table == first for table in tables) and len(tables) == num_passes:
        return first
    named = [_named_rows(table, by_place=len({len(table.rows) for table in tables}) == 1) for table in tables]
    keys = dict.fromkeys(key for rows in named for key in rows)
    rows = [[found.get(key, (None,) * len(first.columns)) for found in named] for key in keys]
    most = max(len(table.notes) for table in tables)
    notes = [_note([table.notes for table in tables], place) for place in range(most)]
    return replace(
        first,
        rows=tuple(
            tuple(_cell(cells, name) for cells, name in zip(zip(*each, strict=True), first.columns, strict=True))
            for each in rows
        ),
        notes=(*notes, *_said_of(len(tables), num_passes)),
    )


def _named_rows(table: Table, *, by_place: bool) -> dict[tuple[object, ...], tuple[Cell, ...]]:
    found: dict[tuple[object, ...], tuple[Cell, ...]] = {}
    for place, row in enumerate(table.rows):
        texts = tuple(cell for cell in row if isinstance(cell, str))
        number = sum(key[:-1] == texts for key in found)
        found[(place,) if by_place else (*texts, number)] = row
    return found


def _cell(cells: Sequence[Cell], column: str) -> Cell:
    distinct = list(dict.fromkeys(cells))
    if len(distinct) == 1:
        return distinct[0]
    numbers = [cell for cell in cells if cell is not None and not isinstance(cell, str)]
    if len(numbers) < len(cells):
        texts = dict.fromkeys(cell for cell in cells if isinstance(cell, str))
        return " / ".join(text or "-" for text in texts) if texts else None
    if column == RANK:
        return f"{min(numbers)}-{max(numbers)}"
    return sum(numbers) / len(numbers)


def _said_of(found: int, num_passes: int) -> list[str]:
    said = [f"Each cell is the {text}."] if (text := passes_text(found)) else []
    return said + (
        [f"Made of {found} of the {num_passes} passes; the others have no such table."] * (found < num_passes)
    )


def _note(notes: Sequence[Sequence[str]], place: int) -> str:
    said = [each[place] if place < len(each) else "" for each in notes]
    if len(set(said)) == 1:
        return said[0]
    return " ".join(f"Pass {number}: {note}" for number, note in enumerate(said, start=1) if note)
