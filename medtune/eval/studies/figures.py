"""Draws the figures of a study: published values as hollow marks, ours filled and with their interval."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from medtune.eval.report.charts.bars import BarChart, Measure, bar_chart
from medtune.eval.report.charts.lines import LineChart, line_chart
from medtune.eval.studies.cells import StudyAnswers, StudyCell
from medtune.eval.studies.published import PublishedColumn, PublishedTable

DRAWN = 24
"""The largest number of columns that a figure shows (our own choice)."""
LONG, MANY = 12, 40
"""The number of rows of one chart, and of all charts, above which a figure is folded (likewise)."""
OURS, PRINTED = "ours", "published"
_BETWEEN = " | "
_BOTH = "Hollow: the published value. Filled: ours, with its 95 % interval."
_OURS_ALONE = "Ours, with its 95 % interval; no value is printed."
_BILLIONS = "billions of parameters, on a logarithmic axis"

Cells = Mapping[tuple[str, str], StudyCell]
"""The cells of a table by row and column."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The charts that show a table."""

    title: str
    said: str  # What the marks are, in words.
    charts: tuple[BarChart | LineChart, ...]

    @property
    def is_long(self) -> bool:
        """Whether it is folded, as it would fill several screens."""
        rows = [len(each.rows) for each in self.charts if isinstance(each, BarChart)]
        return max(rows, default=0) > LONG or sum(rows) > MANY


def figures_of(
    table: PublishedTable, rows: Sequence[StudyAnswers], cells: Cells, billions: Mapping[str, float]
) -> Iterator[Figure]:
    """Yields the figures of a table that have something to draw: its own, and one over the parameters of the models.

    Args:
        rows: The rows of the study.
        billions: The number of parameters in billions of the rows that are one model at several sizes.
    """
    published = {row.name: row.published for row in rows}
    if table.drawn_as == "dots":
        charts: tuple[BarChart | LineChart, ...] = tuple(_by_model(table, published, cells))
    elif table.drawn_as == "lines":
        charts = tuple(_over_columns(table, published, cells))
    else:
        charts = tuple(_of_columns(table, published, cells))
    said = _BOTH if table.printed else _OURS_ALONE
    title = f"{table.title} ({table.source})"
    sized = tuple(_by_parameters(table, cells, billions)) if len({*billions.values()}) > 1 else ()
    if sized:
        yield Figure(f"{title}, by the size of the model: {', '.join(billions)}", said, sized)
    if charts:
        yield Figure(title, said, charts)


def _of_columns(table: PublishedTable, published: Mapping[str, str | None], cells: Cells) -> Iterator[BarChart]:
    for place, name in enumerate(published):
        bars = [
            (column.name, _measures(cells[name, column.name]), None)
            for column in table.columns[:DRAWN]
            if _is_ours(cells, name, column)
        ]
        if bars:
            yield bar_chart(f"{table.name}-{place}", name, bars, between=_BETWEEN)


def _by_model(table: PublishedTable, published: Mapping[str, str | None], cells: Cells) -> Iterator[BarChart]:
    """Yields for each column a chart with the paper's models, then our rows that stand beside none of them."""
    for place, column in enumerate(table.columns[:DRAWN]):
        rows = []
        for model, printed in table.printed.items():
            beside = [name for name, of in published.items() if of == model and _is_ours(cells, name, column)]
            known = [Measure(OURS, cells[name, column.name].ours, cells[name, column.name].ci95) for name in beside]
            if column.name in printed:
                known.insert(0, Measure(PRINTED, printed[column.name], None))
            rows.append((_label(model, beside), known, None))
        for name, of in published.items():
            if of not in table.printed and _is_ours(cells, name, column):
                rows.append((name, _measures(cells[name, column.name]), None))
        if any(known for _, known, _ in rows):
            yield bar_chart(f"{table.name}-{place}", column.name, rows, between=_BETWEEN, marks="dots")


def _label(model: str, beside: Sequence[str]) -> str:
    others = [name for name in beside if name != model]
    return f"{model} / {', '.join(others)}" if others else model


def _over_columns(table: PublishedTable, published: Mapping[str, str | None], cells: Cells) -> Iterator[LineChart]:
    places = {column.name: float(place) for place, column in enumerate(table.columns)}
    for place, name in enumerate(published):
        points = [(column.name, _measures(cells[name, column.name])) for column in table.columns]
        if any(known for _, known in points):
            yield line_chart(f"{table.name}-{place}", name, table.across, places, points)


def _by_parameters(table: PublishedTable, cells: Cells, billions: Mapping[str, float]) -> Iterator[LineChart]:
    """Yields for each column, those that rank first, a chart of its values over the size of the model."""
    names = sorted(billions, key=lambda name: billions[name])
    places = {f"{billions[name]:g}": math.log10(billions[name]) for name in names}
    first = sorted(table.columns[:DRAWN], key=lambda column: column.name not in table.ranked_by)
    for place, column in enumerate(first):
        points = [(f"{billions[name]:g}", _measures(cells[name, column.name])) for name in names]
        if any(known for _, known in points):
            yield line_chart(f"{table.name}-size-{place}", column.name, _BILLIONS, places, points)


def _measures(cell: StudyCell) -> list[Measure]:
    both = ((PRINTED, cell.printed, None), (OURS, cell.ours, cell.ci95))
    return [Measure(kind, value, interval) for kind, value, interval in both if value is not None]


def _is_ours(cells: Cells, row: str, column: PublishedColumn) -> bool:
    return (row, column.name) in cells and cells[row, column.name].ours is not None
