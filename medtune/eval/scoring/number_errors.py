"""Errors of measured numbers: mean and median error, the share within a tolerance, and Bland and Altman's agreement."""

import math
import re
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from medtune.data.grouping import grouped
from medtune.data.types import Interval, Question
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows
from medtune.eval.scoring.parsers.measures import read_measure
from medtune.eval.scoring.tables import Agreement, Cell, Table
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import Statistic, dense_sums, mean_of
from medtune.eval.statistics.intervals import statistic_interval

TOLERANCE = "tolerance"
"""What `Question.printed` holds: the largest error that is right, in the answer's unit, or "10%" of the truth."""
MOST_TEXTS = 20
MOST_POINTS = 400
_RELATIVE = re.compile(r"(\d+(?:[.,]\d+)?|[.,]\d+)\s*%")
_95 = NormalDist().inv_cdf(0.975)
_SHARE, _ERRORS, _ANY = Interval(0.0, 1.0), Interval(0.0, float("inf")), Interval(-float("inf"), float("inf"))

_Three = tuple[float | None, float | None, float | None]
_NOTHING: _Three = (None, None, None)


def read_tolerance(said: str, unit: str | None) -> str | None:
    """Returns a tolerance in the unit of the answer, or as a share of the truth; None if it is neither.

    Where the answer is itself in %, so is the tolerance.

    Example:
        >>> [read_tolerance(said, "mm") for said in ("2", "0,2 cm", "10 %", "2 kg", "-1")]
        ['2', '2', '10%', None, None]
        >>> read_tolerance("5 %", "%")
        '5'
    """
    if unit != "%" and (share := _RELATIVE.fullmatch(said.strip())):
        return f"{float(share[1].replace(',', '.')):g}%"
    found = read_measure(said, unit)
    return None if found is None or found < 0 else f"{found:.12g}"


def is_measured(question: Question) -> bool:
    return question.answer_kind == "number" and not question.options


def within_tolerance() -> Metric:
    """Returns the share of numbers whose error is at most the tolerance, 0 to 1; unreadable replies are wrong.

    Example:
        >>> asked = Question("q", "m", "?", (), "50", "number", "p", unit="mm", printed={TOLERANCE: "10%"})
        >>> within_tolerance().value([ParsedReply(asked, None, said) for said in ("45", "56", "50", None)])
        0.5
    """
    return Metric(mean_of_rows(_is_within), covers=lambda asked: is_measured(asked) and TOLERANCE in asked.printed)


def _is_within(row: ParsedReply) -> float:
    tolerance, truth = row.question.printed[TOLERANCE], _number(row.question.answer)
    most = abs(truth) * float(tolerance[:-1]) / 100 if tolerance.endswith("%") else float(tolerance)
    said = _finite_number(row)
    return float(said is not None and abs(said - truth) <= most * (1 + 1e-9))


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _finite_number(row: ParsedReply) -> float | None:
    """Returns the number of a reply; None where a parser that reads nothing into replies gives no finite number."""
    try:
        said = _number(row.parsed or "")
    except ValueError:
        return None
    return said if math.isfinite(said) else None


def number_tables(rows: Sequence[ParsedReply]) -> list[Table]:
    """Returns the errors of numbers, and their agreement with the truth, for each unit and each question text.

    All but the share within a tolerance are of the readable replies alone, whose number stands beside. The 95 %
    intervals take patients as clusters: the t interval, for the median Woodruff's.

    Source:
        Bland & Altman 1986, doi:10.1016/S0140-6736(86)90837-8: bias, and limits of agreement at bias +- 1.96 SD.
        Woodruff 1952, doi:10.1080/01621459.1952.10483443: the quantiles at the limits of the share below the median.
    """
    units = grouped(rows, lambda row: row.question.unit or "")
    groups = {(_only_text(found), unit): found for unit, found in units.items()}
    texts = grouped(rows, lambda row: (row.question.text, row.question.unit or ""))
    often = sorted((name for name, found in texts.items() if len(found) > 1), key=lambda name: -len(texts[name]))
    groups |= {name: texts[name] for name in often[:MOST_TEXTS]} if len(texts) > len(groups) else {}
    errors, agreements, points = list[tuple[Cell, ...]](), list[tuple[Cell, ...]](), list[Agreement]()
    for (text, unit), asked in groups.items():
        read = [(row.question, said) for row in asked if (said := _finite_number(row)) is not None]
        patients = [question.patient_id for question, _ in read]
        off = np.array([said - _number(question.answer) for question, said in read])
        within = within_tolerance().covered(asked)
        share = _of(within_tolerance().on(within), [row.question.patient_id for row in within]) if within else _NOTHING
        named = text[:60], unit or "-", len(asked)
        mean = _of(mean_of(np.abs(off)), patients, _ERRORS) if read else _NOTHING
        errors.append((*named, len(asked) - len(read), *mean, *_median(np.abs(off), patients), *share))
        limits = [_of(_limit(off, times), patients, _ANY) if len(read) > 1 else _NOTHING for times in (0, -_95, _95)]
        agreements.append((*named[:2], len(read), *(cell for limit in limits for cell in limit)))
        if len(read) > 1:
            bias, low, high = (float(limit[0] or 0) for limit in limits)
            pairs = tuple((_number(question.answer), said) for question, said in read)
            points.append(Agreement(text[:60], unit, pairs[:: -(-len(pairs) // MOST_POINTS)], bias, low, high))
    note = "Errors are those of readable replies; the share within the tolerance counts the others as wrong."
    columns = ("question", "unit", "numbers", "unreadable", *_spread("MAE"), *_spread("median error"))
    return [
        Table("Errors of numbers", (*columns, *_spread("in tolerance")), tuple(errors), (note,)),
        Table(
            "Agreement of numbers (Bland and Altman)",
            ("question", "unit", "readable", *_spread("bias"), *_spread("lower limit"), *_spread("upper limit")),
            tuple(agreements),
            ("Bias is the mean of answer - truth; if normal, 95 % of the differences lie between the limits.",),
            agreements=tuple(points),
        ),
    ]


def _only_text(rows: Sequence[ParsedReply]) -> str:
    texts = {row.question.text for row in rows}
    return texts.pop() if len(texts) == 1 else "all"


def _spread(name: str) -> tuple[str, str, str]:
    return name, f"{name} low", f"{name} high"


def _of(statistic: Statistic, patients: Sequence[str], bounds: Interval = _SHARE) -> _Three:
    low, high = statistic_interval(statistic, patients, right=None, bounds=bounds)
    return (statistic.value(), low, high) if low < high else (statistic.value(), None, None)


def _limit(off: Floats, times: float) -> Statistic:
    def value(sums: Floats) -> Floats:
        number, total, squares = sums[..., 0], sums[..., 1], sums[..., 2]
        variance = np.maximum(squares - total**2 / number, 0) / (number - 1)
        found: Floats = centre + total / number + times * np.sqrt(variance)
        return found

    # Squares are taken about the mean, so that large numbers with small differences keep their digits.
    centre = float(off.mean())
    return dense_sums(np.column_stack([np.ones_like(off), off - centre, (off - centre) ** 2]), value)


def _median(errors: Floats, patients: Sequence[str]) -> _Three:
    if not errors.size:
        return _NOTHING
    middle = float(np.median(errors))
    below = (errors < middle) + 0.5 * (errors == middle)
    low, high = statistic_interval(mean_of(below), patients, right=None)
    ends = np.quantile(errors, [low, high], method="inverted_cdf")
    return middle, float(ends[0]), float(ends[1])
