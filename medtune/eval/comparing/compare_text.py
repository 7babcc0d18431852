"""Shows a comparison as a table and as a forest plot."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from medtune.data.readable import spoken
from medtune.eval.comparing.compare import ComparedSides, Difference
from medtune.eval.comparing.verdict import (
    grounds,
    has_one_question_each,
    is_of_answers,
    one_question_note,
    readability_text,
)
from medtune.eval.metric import passes_text
from medtune.eval.report.table import signed, span
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics.intervals import METHOD
from medtune.eval.statistics.patient_swaps import p_text

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

FILLED = (
    "Filled marks: larger than chance explains, by swaps of whole patients (Holm for tasks) and by the interval, on "
    "all questions and on those that can be read on both sides."
)


@dataclass(frozen=True, slots=True)
class ForestRow:
    label: str
    n: int
    value: float
    low: float  # Lower end of its interval.
    high: float  # Upper end of its interval.
    is_clear: bool  # True if the difference is larger than chance explains (`verdict`).

    @property
    def words(self) -> str:
        """The row in words, for readers who cannot see the plot."""
        return f"{self.label}: {signed(self.value)}, 95 % interval {self.reach}, n {self.n}"

    @property
    def reach(self) -> str:
        return span((self.low, self.high), sign=True)


def forest_svg(rows: Sequence[ForestRow], *, title: str, left: str, right: str, notes: Sequence[str] = ()) -> str:
    """Returns the plot as SVG. A row has a filled mark if it is larger than chance explains, else an open one.

    Args:
        left: The meaning of differences below 0.
        right: The meaning of differences above 0.
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


def comparison_table(found: ComparedSides) -> Table:
    """Returns the comparison as a table, with one row for all questions and one for each task."""
    first, second = found.names
    rows = [("all questions", found.overall), *found.by_task.items()]
    return Table(
        title=f"{second} against {first}: {found.metric} on {found.benchmark}",
        columns=(
            "task",
            "n",
            first,
            second,
            "difference",
            "95 % low",
            "95 % high",
            "p (patients)",
            "p (Holm)",
            "McNemar p (questions)",
        ),
        rows=tuple((task, *_cells(each)) for task, each in rows),
        notes=notes(found),
    )


def notes(found: ComparedSides) -> tuple[str, ...]:
    """Returns the sentences below the table: the questions that were left out, the tests, and the data."""
    first, second = found.names
    counts = found.overall.counts
    one_each = [task for task, each in found.by_task.items() if has_one_question_each(each.paired)]
    said = [
        judgement(found),
        f"Compared: {found.both} questions that both answered, read by {found.parser!r}.",
        f"Left out: {found.only_first} that only {first} answered, {found.only_second} that only {second} answered, "
        f"{found.neither} without any answer.",
        f"Of the {found.both}: both right {counts.both_right}, only {first} {counts.only_first}, only {second} "
        f"{counts.only_second}, both wrong {counts.both_wrong}; the same answer to {found.same}.",
        "Difference: second minus first, paired by question.",
        f"95 % intervals: {METHOD}.",
        "p (patients) is of the difference of the metric itself, from swaps of the two sides for whole patients;",
        "p (Holm) corrects it for the number of tasks. McNemar's exact test takes questions as independent and decides "
        "nothing.",
    ]
    if one_each:
        said.append(one_question_note(one_each, len(found.by_task)))
    if passes := _passes(found):
        said.append(f"{'; '.join(passes)}. A question counts as right if more than half of its answers are; the")
        said.append("difference, its interval and the permutation test go by the share of right answers.")
    for name, kinds in zip(found.names, found.other_answers, strict=True):
        if kinds:
            said.append(f"Not compared, of {name}: {', '.join(f'{kind} {count:,}' for kind, count in kinds.items())}.")
    if found.unscored:
        said.append(
            f"Unscored: {found.unscored} that both answered wait for a judge (medtune judge), and are left out."
        )
    if found.reworded:
        said.append(
            f"{found.reworded} questions were worded differently for the two (answer format or version of the prompt)."
        )
    if len(set(found.thinking)) > 1:
        modes = (
            f"{name} with model.thinking {mode or 'not recorded'}"
            for name, mode in zip(found.names, found.thinking, strict=True)
        )
        said.append(f"Not asked alike: {', '.join(modes)}; a thought before the answer may explain a difference.")
    return (*said, *_labels(found))


def judgement(found: ComparedSides) -> str:
    """Returns which side is better on all questions, or why that cannot be told, as sentences."""
    first, second = found.names
    if found.same == found.both:
        return f"{first} and {second} gave the same answer to each of the {found.both} questions."
    said = {
        "gain": f"{second} is better than {first} by more than chance explains.",
        "format": f"{second} is better than {first} by more than chance explains.",
        "loss": f"{first} is better than {second} by more than chance explains.",
        "unclear": "The difference cannot be told from chance.",
    }[found.overall.verdict]
    whole = found.overall.paired
    parts = f" {readability_text(whole.readability, names=found.names)}" if whole.readability else ""
    if found.overall.verdict != "unclear" and not is_of_answers(whole):
        said += " What is shown is that more of its replies can be read, not that more of its answers are right."
    return f"{said} {grounds(whole)}.{parts}"


def _passes(found: ComparedSides) -> tuple[str, ...]:
    return tuple(
        f"{name}: {passes_text(number)}" for name, number in zip(found.names, found.repeats, strict=True) if number > 1
    )


def _labels(found: ComparedSides) -> tuple[str, ...]:
    first, second = found.labels
    if first == second:
        return first.notes()
    return tuple(
        f"{name}: {note}" for name, label in zip(found.names, found.labels, strict=True) for note in label.notes()
    )


def comparison_plot(found: ComparedSides) -> str:
    """Returns the forest plot of the differences as SVG."""
    first, second = map(shortened, found.names)
    rows = [("all questions", found.overall), *found.by_task.items()]
    return forest_svg(
        [_forest_row(spoken(task), each, found.overall) for task, each in rows],
        title=f"{second} minus {first}: {found.metric} with 95 % intervals",
        left=f"{first} higher",
        right=f"{second} higher",
        notes=(FILLED, *_passes(found), *_labels(found)),
    )


def _forest_row(name: str, each: Difference, overall: Difference) -> ForestRow:
    is_clear = "unclear" not in (overall.verdict, each.verdict) and is_of_answers(each.paired)
    return ForestRow(name, each.n, each.paired.value, *each.paired.ci95, is_clear=is_clear)


def _cells(each: Difference) -> tuple[Cell, ...]:
    paired = each.paired
    values = (paired.before, paired.after, paired.value, *paired.ci95)
    tests = (paired.permutation_p, paired.permutation_p_holm, each.mcnemar_p)
    return (paired.n, *values, *(None if p is None else p_text(p) for p in tests))
