"""Averages the tables that a benchmark makes of each pass over the passes, cell by cell."""

from collections.abc import Sequence
from dataclasses import replace

from medtune.eval.passes_text import passes_text
from medtune.eval.scoring.tables import Cell, Table


def mean_tables(passes: Sequence[Sequence[Table]]) -> list[Table]:
    """Returns the tables with the mean over the passes in each cell, and a note that says so where passes differ.

    Tables are matched by their titles, and rows by their position if the passes have equally many, else by their texts.
    A cell whose text or rank differs between passes shows all of them, and a cell without a value in one of the passes
    has none. Notes that differ are shown for each pass.

    Args:
        passes: For each pass its tables, at least one pass.
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
    if column == "rank":
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
