"""A forest plot as a self-contained SVG: one row per task, a mark at the difference and a line for its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

ROW_PX, HEAD_PX, FOOT_PX, PLOT_PX, LETTER_PX, RIGHT_PX = 28, 56, 56, 420, 7, 190
MAX_LABEL = 44
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1a1a1a;unicode-bidi:plaintext}.title{font-weight:600}"
    "line{stroke:#1a1a1a;stroke-width:1.5}.grid{stroke:#c8c8c8;stroke-width:1}.zero{stroke-dasharray:5 4}"
    ".clear{fill:#1f5fa8;stroke:#1f5fa8;stroke-width:2}.open{fill:#fff;stroke:#1a1a1a;stroke-width:2}.back{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}line{stroke:#eee}.grid{stroke:#555}.back{fill:#16181c}"
    ".clear{fill:#7db4f0;stroke:#7db4f0}.open{fill:#16181c;stroke:#eee}}"
)


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One row: a difference and its interval."""

    label: str
    n: int
    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0

    @property
    def words(self) -> str:
        """The row as a sentence, for those who do not see the plot."""
        return f"{self.label}: {self.value:+.3f}, 95 % interval {self.low:+.3f} to {self.high:+.3f}, n {self.n}"


def forest_svg(rows: Sequence[ForestRow], *, title: str, left: str, right: str) -> str:
    """Returns the plot. A full mark says that the interval leaves 0 out, an open one that it holds it.

    Args:
        rows: From top to bottom.
        title: Over the plot, and its name for a screen reader.
        left: What is left of 0.
        right: What is right of 0.

    Raises:
        ValueError: There are no rows, or a number is not finite.
    """
    numbers = [number for row in rows for number in (row.value, row.low, row.high)]
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError("a forest plot needs at least one row, and finite differences and intervals")
    labels = [_short(row.label) for row in rows]
    start = 24 + LETTER_PX * max(map(len, labels))
    step = _tick(max(0.0, *numbers) - min(0.0, *numbers))
    first, last = math.floor(min(0.0, *numbers) / step), max(math.ceil(max(0.0, *numbers) / step), 1)
    axis = _Axis(start, first * step, last * step)
    width = max(start + PLOT_PX + RIGHT_PX, 24 + (LETTER_PX + 1) * len(title))
    bottom = HEAD_PX + ROW_PX * len(rows)
    digits = max(0, -math.floor(math.log10(step)))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="t d" width="{width}" '
        f'height="{bottom + FOOT_PX}" viewBox="0 0 {width} {bottom + FOOT_PX}">',
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape("; ".join(row.words for row in rows))}</desc>',
        f"<style>{_STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
    ]
    for number in range(first, last + 1):
        x, kind = axis.x(number * step), "zero" if number == 0 else "grid"
        lines.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{HEAD_PX - 14}" y2="{bottom}"/>')
        lines.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{number * step:+.{digits}f}</text>')
    lines.append(f'<text x="{axis.x(0) - 8}" y="{bottom + 42}" text-anchor="end">&#8592; {escape(_short(left))}</text>')
    lines.append(f'<text x="{axis.x(0) + 8}" y="{bottom + 42}">{escape(_short(right))} &#8594;</text>')
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        lines += _row(row, label, axis, y=HEAD_PX + ROW_PX * place)
    return "\n".join([*lines, "</svg>\n"])


@dataclass(frozen=True, slots=True)
class _Axis:
    """Differences from `low` to `high` over `PLOT_PX` pixels from `start`."""

    start: int
    low: float
    high: float

    def x(self, number: float) -> float:
        return round(self.start + (number - self.low) / (self.high - self.low) * PLOT_PX, 1)


def _row(row: ForestRow, label: str, axis: _Axis, *, y: int) -> list[str]:
    low, at, high = axis.x(row.low), axis.x(row.value), axis.x(row.high)
    kind = "clear" if row.is_clear else "open"
    return [
        f"<g><title>{escape(row.words)}</title>",
        f'<text x="12" y="{y + 5}">{escape(label)}</text>',
        f'<line class="{kind}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>',
        *(f'<line class="{kind}" x1="{end}" x2="{end}" y1="{y - 5}" y2="{y + 5}"/>' for end in (low, high)),
        f'<rect class="{kind}" x="{at - 5}" y="{y - 5}" width="10" height="10"/>',
        f'<text x="{axis.start + PLOT_PX + 12}" y="{y + 5}">'
        f"{row.value:+.3f} ({row.low:+.3f} to {row.high:+.3f})</text></g>",
    ]


def _tick(span: float) -> float:
    """The widest of 1, 2 and 5 times a power of ten that cuts the span into about five."""
    if span <= 0:
        return 0.1
    power = 10.0 ** math.floor(math.log10(span / 5))
    return max(power * factor for factor in (1, 2, 5) if power * factor <= span / 4)


def _short(label: str) -> str:
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
