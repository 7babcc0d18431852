"""Shows one evaluation in a paper's table: in a row or a column of its own, with its rank, or apart from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.eval.scoring.tables import RANK, Cell, Table, beside_published, beside_published_columns, rank
from medtune.eval.studies.published import Answers, PhaseAnswers, PublishedColumn, PublishedTable

Values = Mapping[str, float | None]


def answers_of(evidence: PhaseAnswers) -> Answers:
    """Returns the answers of one evaluation, which stand for those of whichever phase a table is about."""
    return {"zero_shot": evidence, "final": evidence}


def tables_of_run(
    table: PublishedTable,
    ours: Mapping[str, Answers],
    *,
    unlike_published: str,
    more: Mapping[str, Values] | None = None,
) -> Sequence[Table]:
    """Returns the paper's table with ours in it, or two tables where ours must not stand among the published ones.

    Args:
        ours: The answers, by the label of our row or column.
        unlike_published: Why ours must not stand there, as a clause; "" if it may.
        more: Further values of ours, by label and column, such as those of guessing; they have no rank.
    """
    unlike = next((said for each in ours.values() for column in table.columns if (said := column.unlike(each))), "")
    unlike_published = unlike_published or unlike
    own = {label: _values(table, answers) for label, answers in ours.items()}
    show = _turned if table.is_turned else _in_rows
    return show(table, own, more or {}, unlike_published)


def _values(table: PublishedTable, answers: Answers) -> Values:
    found = {column.name: column.measure(answers) for column in table.columns}
    return {name: each.value if each else None for name, each in found.items()}


def _in_rows(
    table: PublishedTable, own: Mapping[str, Values], more: Mapping[str, Values], unlike_published: str
) -> Sequence[Table]:
    names = [column.name for column in table.columns]
    has_rank = len(table.ranked_by) == 1

    def row(label: str, values: Values, *, is_ranked: bool) -> tuple[Cell, ...]:
        place = _place(table.column(table.ranked_by[0]), table, values) if has_rank and is_ranked else None
        return (label, *(values.get(name) for name in names), *([place] if has_rank else []))

    printed = [row(model, cells, is_ranked=model not in table.unranked) for model, cells in table.printed.items()]
    rows = [row(label, values, is_ranked=False) for label, values in more.items()]
    rows += [
        row(label, values, is_ranked=True)
        for label, values in own.items()
        if any(v is not None for v in values.values())
    ]
    notes = [*table.notes, *([] if unlike_published else _rank_note(table, own))]
    columns = ("model", *names, *([RANK] if has_rank else []))
    shown = Table(table.title, columns, tuple(printed), tuple(notes), digits=table.digits)
    if not printed:
        return (replace(shown, rows=tuple(rows)),)
    return beside_published(shown, rows, unlike_published=unlike_published)


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
    table: PublishedTable, own: Mapping[str, Values], more: Mapping[str, Values], unlike_published: str
) -> Sequence[Table]:
    mine = {**more, **own}
    rows = tuple(
        (
            column.name,
            *(cells.get(column.name) for cells in table.printed.values()),
            *(values.get(column.name) for values in mine.values()),
            _place(column, table, list(own.values())[-1]),
        )
        for column in table.columns
    )
    shown = Table(table.title, ("", *table.printed, *mine, RANK), rows, table.notes, digits=table.digits)
    return beside_published_columns(shown, ours=tuple(mine), labels=1, unlike_published=unlike_published)
