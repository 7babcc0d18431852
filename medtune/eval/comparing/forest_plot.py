"""Draws a forest plot as a self-contained SVG: for each task a mark at the difference and a line for its interval."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from medtune.eval.report.table import signed, span

ROW_PX, HEAD_PX, LINE_PX, PLOT_PX, EDGE_PX, GAP_PX = 28, 56, 20, 420, 14, 14
MAX_LABEL_PX = 320
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1a1a1a;unicode-bidi:plaintext}.title{font-weight:600}"
    "line{stroke:#1a1a1a;stroke-width:1.5}.grid{stroke:#c8c8c8;stroke-width:1}.zero{stroke-dasharray:5 4}"
    ".clear{fill:#1f5fa8;stroke:#1f5fa8;stroke-width:2}.open{fill:#fff;stroke:#1a1a1a;stroke-width:2}.back{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}line{stroke:#eee}.grid{stroke:#555}.back{fill:#16181c}"
    ".clear{fill:#7db4f0;stroke:#7db4f0}.open{fill:#16181c;stroke:#eee}}"
)
# The widths of letters in a wide sans-serif font (DejaVu Sans at 13 px), because the font of the viewer is not known.
_NARROW, _WIDE = frozenset("iljtfrI.,:;|!'()[] -"), frozenset("mwMW@%&")
_NARROW_PX, _WIDE_PX, _CAPITAL_PX, _OTHER_PX, _BOLD = 5.5, 13.0, 10.0, 8.4, 1.15


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One row of the plot: a difference and its interval.

    Attributes:
        label: Name of the row.
        n: Number of questions.
        value: The difference.
        low: Lower end of its interval.
        high: Upper end of its interval.
        is_clear: True if the difference is larger than chance explains (`verdict`).
    """

    label: str
    n: int
    value: float
    low: float
    high: float
    is_clear: bool

    @property
    def words(self) -> str:
        """The row in words, for readers who cannot see the plot."""
        return f"{self.label}: {signed(self.value)}, 95 % interval {self.reach}, n {self.n}"

    @property
    def reach(self) -> str:
        """The interval in words."""
        return span((self.low, self.high), sign=True)


def forest_svg(rows: Sequence[ForestRow], *, title: str, left: str, right: str, notes: Sequence[str] = ()) -> str:
    """Returns the plot as SVG. A row has a filled mark if it is larger than chance explains, else an open one.

    Args:
        rows: The rows from top to bottom, at least one.
        title: The line above the plot, which screen readers read as its name.
        left: The meaning of differences below 0.
        right: The meaning of differences above 0.
        notes: Lines below the plot.
    """
    numbers = [number for row in rows for number in (row.value, row.low, row.high)]
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError("a forest plot needs at least one row, and finite differences and intervals")
    labels = [shortened(row.label) for row in rows]
    figures = [(f"{signed(row.value)} ({row.reach})", f"n = {row.n}") for row in rows]
    step = _tick(max(0.0, *numbers) - min(0.0, *numbers))
    first, last = math.floor(min(0.0, *numbers) / step), max(math.ceil(max(0.0, *numbers) / step), 1)
    axis = _Axis(EDGE_PX + _widest(labels) + 2 * GAP_PX, first * step, last * step)
    columns = [axis.start + PLOT_PX + GAP_PX]
    columns.append(columns[0] + _widest([reach for reach, _ in figures]) + GAP_PX)
    width = columns[1] + _widest([n for _, n in figures]) + EDGE_PX
    width = max(width, *(2 * EDGE_PX + width_px(text) for text in (f"\u2190 {left}", f"{right} \u2192")))
    width = math.ceil(max(width, 2 * EDGE_PX + _BOLD * width_px(title), *(2 * EDGE_PX + width_px(n) for n in notes)))
    bottom = HEAD_PX + ROW_PX * len(rows)
    directions, noted_from = _directions(left, right, axis, width=width, y=bottom + 18)
    height = noted_from + LINE_PX * len(notes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="t d" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">',
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape("; ".join(row.words for row in rows))}</desc>',
        f"<style>{_STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        f'<text class="title" x="{EDGE_PX}" y="24">{escape(title)}</text>',
    ]
    lines += [*_grid(axis, step, range(first, last + 1), bottom=bottom), *directions]
    for place, row in enumerate(rows):
        y = HEAD_PX + ROW_PX * place
        lines += [
            f"<g><title>{escape(row.words)}</title>",
            _text(labels[place], EDGE_PX, y + 5),
            *_mark(row, axis, y=y),
        ]
        lines += [_text(said, x, y + 5) for said, x in zip(figures[place], columns, strict=True)]
        lines.append("</g>")
    lines += [_text(note, EDGE_PX, noted_from + LINE_PX * place + 4) for place, note in enumerate(notes)]
    return "\n".join([*lines, "</svg>\n"])


def shortened(text: str, at_most_px: float = MAX_LABEL_PX) -> str:
    """Returns the text, cut to a width in pixels; a cut text ends with an ellipsis.

    Example:
        >>> shortened("lesion localisation", 80)
        'lesion lo…'
    """
    if width_px(text) <= at_most_px:
        return text
    end = len(text)
    while end and width_px(text[:end]) + _WIDE_PX > at_most_px:
        end -= 1
    return f"{text[:end].rstrip()}…"


def width_px(text: str) -> float:
    """Returns the estimated width in pixels of a text at 13 px; the estimate is rather too wide than too narrow."""
    return sum(_letter_px(letter) for letter in text)


def _letter_px(letter: str) -> float:
    if letter in _NARROW:
        return _NARROW_PX
    if letter in _WIDE or unicodedata.east_asian_width(letter) in "WF":
        return _WIDE_PX
    return _CAPITAL_PX if letter.isupper() else _OTHER_PX


def _widest(texts: Sequence[str]) -> float:
    return max(map(width_px, texts))


@dataclass(frozen=True, slots=True)
class _Axis:
    start: float
    low: float
    high: float

    def x(self, number: float) -> float:
        return round(self.start + (number - self.low) / (self.high - self.low) * PLOT_PX, 1)


def _grid(axis: _Axis, step: float, ticks: range, *, bottom: int) -> list[str]:
    digits = max(0, -math.floor(math.log10(step)))
    lines = []
    for number in ticks:
        x, kind = axis.x(number * step), "zero" if number == 0 else "grid"
        lines.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{HEAD_PX - 14}" y2="{bottom}"/>')
        lines.append(_text(signed(number * step, digits) if number else "0", x, bottom + 18, anchor="middle"))
    return lines


def _mark(row: ForestRow, axis: _Axis, *, y: int) -> list[str]:
    low, at, high = axis.x(row.low), axis.x(row.value), axis.x(row.high)
    kind = "clear" if row.is_clear else "open"
    return [
        f'<line class="{kind}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>',
        *(f'<line class="{kind}" x1="{end}" x2="{end}" y1="{y - 5}" y2="{y + 5}"/>' for end in (low, high)),
        f'<rect class="{kind}" x="{at - 5}" y="{y - 5}" width="10" height="10"/>',
    ]


def _directions(left: str, right: str, axis: _Axis, *, width: int, y: int) -> tuple[list[str], int]:
    left, right = f"\u2190 {left}", f"{right} \u2192"
    to_left, to_right = axis.x(0) - GAP_PX - width_px(left), axis.x(0) + GAP_PX
    last_right = width - EDGE_PX - width_px(right)
    fits = to_left >= EDGE_PX and to_right <= last_right
    below = y + LINE_PX + 4
    # The texts are anchored at their inner ends, so that they begin beside 0 in any font.
    texts = [
        _text(left, axis.x(0) - GAP_PX, below, anchor="end") if to_left >= EDGE_PX else _text(left, EDGE_PX, below),
        _text(right, min(to_right, last_right), below if fits else below + LINE_PX),
    ]
    return texts, below + (0 if fits else LINE_PX) + EDGE_PX


def _text(said: str, x: float, y: int, *, anchor: str = "start") -> str:
    return f'<text x="{round(x, 1)}" y="{y}" text-anchor="{anchor}">{escape(said)}</text>'


def _tick(span: float) -> float:
    if span <= 0:
        return 0.1
    power = 10.0 ** math.floor(math.log10(span / 5))
    return max(power * factor for factor in (1, 2, 5) if power * factor <= span / 4)
