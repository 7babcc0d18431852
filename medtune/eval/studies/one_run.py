"""Shows one evaluation in a paper's table: in a row or a column of its own, with its rank, or apart from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.data.types import Interval
from medtune.eval.evidence import Evidence
from medtune.eval.scoring.tables import RANK, Cell, Table, beside_published, beside_published_columns, rank
from medtune.eval.studies.cells import over_passes
from medtune.eval.studies.published import Answers, CellValue, PublishedColumn, PublishedTable

Values = Mapping[str, float | None]
Passes = Sequence[Answers]
"""The answers of each pass of one evaluation."""

Own = Mapping[str, CellValue | None]


def answers_of(*passes: Evidence) -> Passes:
    """Returns the answers of one evaluation, which stand for those of whichever phase a table is about."""
    return [{"zero_shot": evidence, "final": evidence} for evidence in passes]


def tables_of_run(
    table: PublishedTable,
    ours: Mapping[str, Passes],
    *,
    unlike_published: str,
    more: Mapping[str, Values] | None = None,
) -> Sequence[Table]:
    """Returns the paper's table with ours in it, or two tables where ours must not stand among the published ones.

    Where the paper prints intervals over repeats, ours of several passes has one too.

    Args:
        ours: The answers, by the label of our row or column.
        unlike_published: Why ours must not stand there, as a clause; "" if it may.
        more: Further values of ours, by label and column, such as those of guessing; they have no rank.
    """
    answers = [each for passes in ours.values() for each in passes]
    unlike = next((said for each in answers for column in table.columns if (said := column.unlike(each))), "")
    unlike_published = unlike_published or unlike
    own = {label: {column.name: value_of(column, passes) for column in table.columns} for label, passes in ours.items()}
    show = _turned if table.is_turned else _in_rows
    return show(table, own, more or {}, unlike_published)


def value_of(column: PublishedColumn, passes: Passes) -> CellValue | None:
    """Returns our value in a column, over several passes their mean; None where the answers do not give it."""
    found = [each for answers in passes if (each := column.measure(answers)) is not None]
    return None if not found else found[0] if len(passes) == 1 else over_passes(found)


def _numbers(values: Own) -> dict[str, float | None]:
    return {name: each.value if each else None for name, each in values.items()}


def _in_rows(
    table: PublishedTable, own: Mapping[str, Own], more: Mapping[str, Values], unlike_published: str
) -> Sequence[Table]:
    columns = table.columns
    has_rank = len(table.ranked_by) == 1

    def row(label: str, values: Values, *, is_ranked: bool) -> tuple[Cell, ...]:
        place = _place(table.column(table.ranked_by[0]), table, values) if has_rank and is_ranked else None
        return (label, *(_number(each, values.get(each.name)) for each in columns), *([place] if has_rank else []))

    mine = {label: _numbers(values) for label, values in own.items()}
    printed = [row(model, cells, is_ranked=model not in table.unranked) for model, cells in table.printed.items()]
    rows = [row(label, values, is_ranked=False) for label, values in more.items()]
    rows += [
        row(label, values, is_ranked=True)
        for label, values in mine.items()
        if any(v is not None for v in values.values())
    ]
    notes = [*table.notes, *([] if unlike_published else _rank_note(table, mine))]
    names = ("model", *(each.name for each in columns), *([RANK] if has_rank else []))
    shown = Table(table.title, names, tuple(printed), tuple(notes), digits=table.digits)
    if not printed:
        return (replace(shown, rows=tuple(rows)),)
    return beside_published(shown, rows, unlike_published=unlike_published)


def _number(column: PublishedColumn, value: float | None) -> Cell:
    """Returns a value, that of a count as a whole number."""
    return None if value is None else round(value) if column.is_count else value


def _rank_note(table: PublishedTable, own: Mapping[str, Values]) -> list[str]:
    number = len(table.printed) - len(table.unranked) + 1
    if len(table.ranked_by) == 1:
        return [f"Rank: by {table.ranked_by[0]} among the paper's {number - 1} models."]
    said = []
    for label, values in own.items():
        places = [(name, _place(table.column(name), table, values)) for name in table.ranked_by]
        if known := [f"{name} {place}" for name, place in places if place is not None]:
            said.append(f"Rank of {label} among {number}: {', '.join(known)}.")
    return said


def _place(column: PublishedColumn, table: PublishedTable, values: Values) -> int | None:
    value = values.get(column.name)
    if value is None:
        return None
    return rank(value, table.others(column.name), higher_is_better=column.higher_is_better is not False)


def _turned(
    table: PublishedTable, own: Mapping[str, Own], more: Mapping[str, Values], unlike_published: str
) -> Sequence[Table]:
    def printed(model: str, column: str) -> Cell:
        return _with_interval(table.printed[model].get(column), table.printed_intervals.get((model, column)))

    def ours(each: CellValue | None) -> Cell:
        if each is None:
            return None
        return _with_interval(each.value, each.ci95) if table.printed_intervals else each.value

    last = _numbers([*own.values()][-1])
    rows = tuple(
        (
            column.name,
            *(printed(model, column.name) for model in table.printed),
            *(values.get(column.name) for values in more.values()),
            *(ours(values[column.name]) for values in own.values()),
            _place(column, table, last),
        )
        for column in table.columns
    )
    shown = Table(
        table.title, (table.across, *table.printed, *more, *own, RANK), rows, table.notes, digits=table.digits
    )
    return beside_published_columns(shown, ours=(*more, *own), labels=1, unlike_published=unlike_published)


def _with_interval(value: float | None, interval: Interval | None) -> Cell:
    """Returns a value, and where it has an interval both as text."""
    if value is None or interval is None:
        return value
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
