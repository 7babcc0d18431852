"""Describes a paper's table as data: its printed cells, and for each column the measure that gives ours.

A measure reads the answers of a run by phase. What is printed has an uncertainty of its own, which follows from the
number of questions behind it; where that number is not printed, it is that of ours, as the questions are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from medtune.data.types import Condition, Interval
from medtune.eval.evidence import Evidence

Phase = Literal["zero_shot", "final"]
Drawing = Literal["bars", "dots", "lines"]

PrintedInterval = Callable[[float, int], Interval]
"""Returns the 95 % interval of a printed value behind which are so many questions."""


Answers = Mapping[Phase, Evidence]
"""The answers of a run by phase; one that was only evaluated has one phase."""


def no_interval() -> Interval | None:
    """Returns None, for a measure without an interval."""
    return None


def compared_freely(answers: Answers) -> str:
    """Returns "", for a column whose printed values ours may always be compared with."""
    return ""


@dataclass(frozen=True, slots=True)
class CellValue:
    """A cell of ours: its value in the unit of the column, and the number of questions that it counts."""

    value: float
    n: int
    interval: Callable[[], Interval | None] = no_interval  # Computes `ci95`, which takes much longer than the value.

    @property
    def ci95(self) -> Interval | None:
        """The 95 % interval with patients as clusters; None where the measure has none."""
        return self.interval()


Measure = Callable[[Answers], CellValue | None]
"""Returns our value for a cell; None where the answers do not give it."""


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of a paper's table.

    Attributes:
        name: Its name, unique in the table.
        measure: Gives our value.
        phases: The phases that the measure reads.
        conditions: The conditions that the measure reads.
        printed_interval: Gives the uncertainty of a printed value; None where it does not follow from a number of
            questions, so that no test against it is made.
        n: The number of questions behind a printed value; None where the paper does not say it.
        printed_digits: The number of decimals that the paper prints; ours is rounded to it before the two are compared.
        higher_is_better: None for a count, which is neither better nor worse.
        unlike: Says why these answers must not be compared with the printed values of this column, such as another
            rule, as a clause; "" where they may.
        benchmark: The benchmark whose answers it reads, in a table over several; "" in a table of one.
        place: Returns our place among the published values, where the paper's own tool has a rule for it; None is that
            equal values share the better place.
    """

    name: str
    measure: Measure
    phases: tuple[Phase, ...]
    conditions: tuple[Condition, ...] = ("image",)
    printed_interval: PrintedInterval | None = None
    n: int | None = None
    printed_digits: int = 3
    higher_is_better: bool | None = True
    unlike: Callable[[Answers], str] = compared_freely
    benchmark: str = ""
    place: Callable[[float, Sequence[float]], int] | None = None

    @property
    def is_count(self) -> bool:
        """Whether its values are numbers of questions, which are neither better nor worse."""
        return self.printed_digits == 0 and self.higher_is_better is None


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A paper's table.

    Attributes:
        name: The name by which a study asks for it.
        title: What it shows, in words.
        source: Where it is printed.
        columns: Its columns, in the paper's order.
        printed: The printed cells by row, usually a model, and column.
        notes: Contradictions in the paper, and how ours differs, in sentences.
        ranked_by: The columns by which rows are ranked: one has a column for it, several have a sentence.
        unranked: The printed rows that are no models, such as guessing.
        is_turned: Whether the paper's models are the columns when the table is shown; each of its rows then has a rank.
        drawn_as: How its figure shows it: as bars, with the columns below each other for each row of ours; as dots,
            with the rows below each other for each column; or as lines over the columns for each row.
        across: What the columns are, in words, for lines and for a table that is turned.
    """

    name: str
    title: str
    source: str
    columns: tuple[PublishedColumn, ...]
    printed: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()
    ranked_by: tuple[str, ...] = ()
    unranked: frozenset[str] = frozenset()
    is_turned: bool = False
    drawn_as: Drawing = "bars"
    across: str = ""
    # The interval of a cell that the paper itself prints, by row and column.
    printed_intervals: Mapping[tuple[str, str], Interval] = field(default_factory=dict)

    @property
    def num_printed(self) -> int:
        return sum(map(len, self.printed.values()))

    @property
    def digits(self) -> int:
        """The number of decimals with which its cells are shown."""
        return max(each.printed_digits for each in self.columns)

    def others(self, column: str) -> list[float]:
        """Returns the printed values of the models in a column, among which ours is ranked."""
        rows = (cells for model, cells in self.printed.items() if model not in self.unranked)
        return [cells[column] for cells in rows if column in cells]

    def column(self, name: str) -> PublishedColumn:
        return next(each for each in self.columns if each.name == name)


def joined(parts: Mapping[str, tuple[str, PublishedTable]]) -> PublishedTable:
    """Returns one table with the columns of those of several benchmarks side by side, and their rows by name.

    Args:
        parts: By the name of a benchmark, its title and its table; all have the same name.
    """
    first = next(iter(parts.values()))[1]
    several = len(parts) > 1
    columns: list[PublishedColumn] = []
    printed: dict[str, dict[str, float]] = {}
    intervals: dict[tuple[str, str], Interval] = {}
    notes: list[str] = []
    for benchmark, (title, table) in parts.items():
        alone = len(table.columns) == 1
        names = {
            each.name: each.name if not several else title if alone else f"{title}, {each.name}"
            for each in table.columns
        }
        columns += [replace(each, name=names[each.name], benchmark=benchmark) for each in table.columns]
        for row, cells in table.printed.items():
            printed.setdefault(row, {}).update({names[column]: value for column, value in cells.items()})
        intervals |= {(row, names[column]): each for (row, column), each in table.printed_intervals.items()}
        notes += [f"{title}: {note}" if several else note for note in table.notes]
    return replace(
        first,
        title=first.title if not several else f"{', '.join(title for title, _ in parts.values())}: {first.name}",
        source="; ".join(dict.fromkeys(table.source for _, table in parts.values())),
        columns=tuple(columns),
        printed=printed,
        notes=tuple(notes),
        ranked_by=first.ranked_by if not several else (),
        unranked=frozenset().union(*(table.unranked for _, table in parts.values())),
        printed_intervals=intervals,
    )
