"""Computes the cells of a study: ours beside the printed ones, their differences, intervals and tests.

The difference is ours, rounded as the paper prints, minus the printed value. Its interval contains the uncertainty of
both; ours has patients as clusters, and over seeds also their spread. Both models answered the same questions, which
the printed value no longer tells: the interval takes the two as independent and is rather too wide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from medtune.data.types import Interval
from medtune.eval.scoring.tables import rank
from medtune.eval.statistics.intervals import difference_of_two, normal_quantile, t_quantile
from medtune.eval.statistics.patient_swaps import holm
from medtune.eval.studies.published import Answers, CellValue, PublishedColumn, PublishedTable

NO_RESULT = "no answers of ours"
NOT_PRINTED = "the paper prints no such cell"
NO_UNCERTAINTY = "the uncertainty of the printed value does not follow from a number of questions"


@dataclass(frozen=True, slots=True)
class StudyAnswers:
    """The answers of one row of a study to the questions of a benchmark.

    Attributes:
        name: The row's name.
        published: The row of the paper that it is compared with; None for none.
        runs: The answers of each seed, or of the one run; empty where there are none yet.
        departures: What differs from the paper, in words.
        apart: Why ours must not be compared with the paper at all, such as simulated data; "" if it may.
        benchmark: The benchmark; "" in a study of one.
    """

    name: str
    published: str | None
    runs: Sequence[Answers]
    departures: tuple[str, ...] = ()
    apart: str = ""
    benchmark: str = ""


@dataclass(frozen=True, slots=True)
class StudyCell:
    """One cell of a study; None where a number is not there, and `why` says why.

    Attributes:
        row: The row of the study.
        published_row: The row of the paper's table.
        ours: Our value, the mean over seeds.
        ci95: Its 95 % interval.
        n: The number of questions that it counts.
        seeds: The number of runs that differ in their seed.
        printed: The printed value.
        rank: The place of ours among the paper's models and itself, 1 for the best; None where it may not be compared.
        difference: Ours minus the printed value.
        difference_ci95: The 95 % interval of the difference, with the uncertainty of both.
        p: The two-sided p value that there is no difference.
        p_holm: `p` after Holm's correction over the cells of the study.
        why: Why there is no difference, or no test of it; "" where there are both.
    """

    table: str
    column: str
    row: str
    published_row: str | None
    ours: float | None
    ci95: Interval | None
    n: int
    seeds: int
    printed: float | None
    rank: int | None = None
    difference: float | None = None
    difference_ci95: Interval | None = None
    p: float | None = None
    p_holm: float | None = None
    why: str = ""


def study_cells(tables: Sequence[PublishedTable], rows: Sequence[StudyAnswers]) -> list[StudyCell]:
    """Returns every cell of every row, table by table, with Holm's correction over all tests of the study."""
    of = {(row.name, row.benchmark): row for row in rows}
    names = [*dict.fromkeys(row.name for row in rows)]
    cells = [
        _cell(table, column, of[name, column.benchmark])
        for table in tables
        for name in names
        for column in table.columns
        if (name, column.benchmark) in of
    ]
    tested = [place for place, cell in enumerate(cells) if cell.p is not None]
    adjusted = holm([cells[place].p or 0.0 for place in tested]).p_values if tested else ()
    for place, p in zip(tested, adjusted, strict=True):
        cells[place] = replace(cells[place], p_holm=p)
    return cells


def _cell(table: PublishedTable, column: PublishedColumn, row: StudyAnswers) -> StudyCell:
    found = [each for answers in row.runs if (each := column.measure(answers)) is not None]
    ours = over_seeds(found) if found and len(found) == len(row.runs) else None
    ci95 = ours.ci95 if ours else None
    printed = table.printed.get(row.published or "", {}).get(column.name)
    cell = StudyCell(
        table.name,
        column.name,
        row.name,
        row.published,
        ours.value if ours else None,
        ci95,
        ours.n if ours else 0,
        len(found) if ours else 0,
        printed,
    )
    if ours is None:
        return replace(cell, why=NO_RESULT)
    if why := row.apart or next(filter(None, map(column.unlike, row.runs)), ""):
        return replace(cell, why=why)
    cell = replace(cell, rank=_rank(table, column, ours.value))
    if printed is None:
        return replace(cell, why=NOT_PRINTED)
    return _compared(cell, ours.value, printed, _printed_interval(table, column, row, printed, ours.n), column)


def _rank(table: PublishedTable, column: PublishedColumn, value: float) -> int | None:
    others = table.others(column.name)
    if column.higher_is_better is None or not others:
        return None
    if column.place is not None:
        return column.place(value, others)
    return rank(value, others, higher_is_better=column.higher_is_better)


def _printed_interval(
    table: PublishedTable, column: PublishedColumn, row: StudyAnswers, printed: float, n: int
) -> Interval | None:
    own = table.printed_intervals.get((row.published or "", column.name))
    if own or column.printed_interval is None:
        return own
    return column.printed_interval(printed, column.n or n)


def _compared(
    cell: StudyCell, ours: float, printed: float, of_printed: Interval | None, column: PublishedColumn
) -> StudyCell:
    rounded = round(ours, column.printed_digits)
    difference = round(rounded - printed, column.printed_digits)
    if of_printed is None or cell.ci95 is None:
        return replace(cell, difference=difference, why=NO_UNCERTAINTY)
    low, high = difference_of_two((printed, of_printed), (ours, cell.ci95), correlation=0.0)
    return replace(cell, difference=difference, difference_ci95=Interval(low, high), p=_p(ours - printed, low, high))


def _p(difference: float, low: float, high: float) -> float:
    """Returns the p value that agrees with the interval: below 0.05 where it does not hold 0."""
    reach = difference - low if difference > 0 else high - difference
    if difference == 0 or reach <= 0:
        return 1.0
    return 2 * NormalDist().cdf(-normal_quantile() * abs(difference) / reach)


def over_seeds(found: Sequence[CellValue]) -> CellValue:
    """Returns the mean over seeds; its interval contains those of the patients and of the seeds, square and add.

    >>> one = CellValue(0.5, 10, lambda: Interval(0.4, 0.6))
    >>> over_seeds([one, one]).value, over_seeds([one, one]).ci95
    (0.5, Interval(low=0.4, high=0.6))
    """
    if len(found) == 1:
        return found[0]
    values = [each.value for each in found]
    return CellValue(math.fsum(values) / len(values), found[0].n, lambda: _interval_over_seeds(found))


def over_passes(found: Sequence[CellValue]) -> CellValue:
    """Returns the mean over passes of one evaluation with Student's interval about it; a single pass has none.

    A paper that states "5 repeated experiments" and prints symmetric intervals without naming a method most likely has
    this one. It does not cover the choice of patients, so read it together with the interval over patients. If all
    passes agree, its width is 0.

    >>> found = over_passes([CellValue(value, 10) for value in (0.50, 0.51, 0.49, 0.50, 0.50)])
    >>> round(found.value, 3), found.ci95 and round(found.ci95.high, 4)
    (0.5, 0.5088)

    Source: CTLesionVQA (arXiv 2505.18915), Appendix F; Student 1908, doi:10.1093/biomet/6.1.1.
    """
    mean = math.fsum(each.value for each in found) / len(found)
    if len(found) == 1:
        return CellValue(mean, found[0].n)
    reach = _reach_of_runs([each.value for each in found], mean)
    return CellValue(mean, found[0].n, lambda: Interval(mean - reach, mean + reach))


def _reach_of_runs(values: Sequence[float], mean: float) -> float:
    """Returns half the width of Student's interval of a mean over runs."""
    number = len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (number - 1)
    return t_quantile(number - 1) * math.sqrt(variance / number)


def _interval_over_seeds(found: Sequence[CellValue]) -> Interval | None:
    number, intervals = len(found), [each.ci95 for each in found]
    if any(each is None for each in intervals):
        return None
    mean = math.fsum(each.value for each in found) / number
    of_seeds = _reach_of_runs([each.value for each in found], mean)
    below = math.fsum(each.value - own.low for each, own in zip(found, intervals, strict=True) if own) / number
    above = math.fsum(own.high - each.value for each, own in zip(found, intervals, strict=True) if own) / number
    return Interval(mean - math.hypot(below, of_seeds), mean + math.hypot(above, of_seeds))
