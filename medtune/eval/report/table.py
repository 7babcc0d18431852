"""Defines the tables and cells of the report, formats numbers for them, and writes tables as Markdown."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from medtune.data.control_characters import without_controls
from medtune.data.readable import spoken
from medtune.eval.results.phase_schema import counted_text
from medtune.eval.scoring.tables import Table
from medtune.eval.statistics.patient_swaps import p_text

Tone = Literal["", "good", "bad", "muted", "flag", "ours"]
MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
_SPECIAL = re.compile(r"([\\`*_{}\[\]>#|~!])")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    sort: str | float | None = None  # The number or text by which the column is sorted; None sorts last.
    tone: Tone = ""  # The way in which the cell is marked, never by colour alone; "" for no mark.

    @property
    def is_number(self) -> bool:
        """True if the cell holds a number, which is aligned to the right."""
        return isinstance(self.sort, float)


@dataclass(frozen=True, slots=True)
class ReportTable:
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]  # The rows; the first cell of each is its header.
    notes: tuple[str, ...] = ()
    sortable: bool = True  # True if the reader can sort the table.

    def is_numeric(self, column: int) -> bool:
        """Returns whether a column holds only numbers and empty cells, and at least one number."""
        found = [row[column] for row in self.rows if row[column].sort is not None]
        return bool(found) and all(cell.is_number for cell in found)


def word(text: str, tone: Tone = "") -> Cell:
    return Cell(text, text.casefold(), tone)


def not_available() -> Cell:
    """Returns the cell of a value that cannot exist, "n/a"."""
    return Cell("n/a", None, "muted")


def number(value: float | None, digits: int = 3, *, tone: Tone = "") -> Cell:
    """Returns the cell of a number; a dash for None."""
    return Cell(NONE, None, "muted") if value is None else Cell(plain(value, digits), value, tone)


def count(value: int | None, *, of: int | None = None) -> Cell:
    """Returns the cell of a whole number, with the whole that it is a part of; a dash for None."""
    return Cell(NONE, None, "muted") if value is None else Cell(counted_text(value, of), float(value))


def change(value: float | None, digits: int = 3, *, tone: Tone = "") -> Cell:
    """Returns the cell of a number with its sign; a dash for None."""
    return Cell(NONE, None, "muted") if value is None else Cell(signed(value, digits), value, tone)


def interval(pair: tuple[float, float] | None, digits: int = 3, *, sign: bool = False) -> Cell:
    """Returns the cell of a 95 % interval, sorted by its lower end; a dash for None."""
    return Cell(NONE, None, "muted") if pair is None else Cell(span(pair, digits, sign=sign), pair[0])


def p_value(value: float | None) -> Cell:
    """Returns the cell of a p value; a dash for None."""
    return Cell(NONE, None, "muted") if value is None else Cell(p_text(value), value)


def plain(value: float, digits: int = 3) -> str:
    """Returns a number as text, with the typographic minus sign.

    >>> plain(0.5), plain(-0.0001, 2)
    ('0.500', '0.00')
    """
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text.replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """Returns a number as text with its sign; a number that is rounded to zero has no sign.

    >>> signed(0.5, 2), signed(0.001, 2)
    ('+0.50', '0.00')
    """
    text = plain(value, digits)
    return text if text.startswith(MINUS) or float(text.replace(",", "")) == 0 else f"+{text}"


def span(pair: Sequence[float], digits: int = 3, *, sign: bool = False) -> str:
    """Returns an interval as text.

    >>> span((0.25, 0.5), 2)
    '0.25 to 0.50'
    """
    low, high = (signed(end, digits) if sign else plain(end, digits) for end in pair)
    return f"{low} to {high}"


def phase_title(name: str) -> str:
    return {"zero_shot": "zero-shot", "final": "after training"}.get(name, spoken(name))


def paper_table(table: Table) -> ReportTable:
    """Returns a table of results as one of the report; rows that begin with "ours" are marked."""
    rows = []
    for row in table.rows:
        is_ours = isinstance(row[0], str) and row[0].startswith("ours")
        rows.append(tuple(_paper_cell(cell, table.digits, is_ours=is_ours) for cell in row))
    return ReportTable(table.title, table.columns, tuple(rows), table.notes)


def _paper_cell(cell: str | float | None, digits: int, *, is_ours: bool) -> Cell:
    if isinstance(cell, str):
        return word(cell, "ours" if is_ours else "")
    return count(cell) if isinstance(cell, int) else number(cell, digits)


def table_lines(table: ReportTable) -> list[str]:
    if not table.rows:
        return []
    rules = ["---:" if table.is_numeric(column) else "---" for column in range(len(table.columns))]
    rows = [[escaped(cell.text) for cell in row] for row in table.rows]
    lines = [
        f"**{escaped(table.caption)}**",
        "",
        markdown_row([escaped(name) for name in table.columns]),
        markdown_row(rules),
    ]
    lines += [markdown_row(row) for row in rows]
    lines += [line for note in table.notes for line in ("", escaped(note))]
    return [*lines, ""]


def banner_lines(banners: Sequence[tuple[str, str]]) -> list[str]:
    """Returns the lines of the banners, which say why the numbers are not the benchmark's own."""
    return [line for name, meaning in banners for line in (f"> **{escaped(name)}.** {escaped(meaning)}", "")]


def escaped(text: str) -> str:
    r"""Returns a text for Markdown and HTML: their special characters escaped, without line breaks or control codes.

    >>> escaped("<b>a|b</b>")
    '&lt;b\\>a\\|b&lt;/b\\>'
    """
    plain = " ".join(without_controls(text).replace(MINUS, "-").replace(NONE, "-").split())
    return _SPECIAL.sub(r"\\\1", plain).replace("&", "&amp;").replace("<", "&lt;")


def markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
