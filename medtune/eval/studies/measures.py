"""Measures of cells, made from metrics, and the uncertainty of printed cells."""

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from medtune.data.types import Condition, Interval, Question
from medtune.eval.metric import Metric, ParsedReply, every_question
from medtune.eval.scoring.reply_rules import ReplyRule
from medtune.eval.scoring.score import correctness, score_rows
from medtune.eval.statistics.intervals import mean_interval, normal_quantile, statistic_gain_interval, wilson
from medtune.eval.studies.published import Answers, CellValue, Measure, Phase, PrintedInterval, no_interval

_ROUNDING = 1e-9


class QuestionPart(NamedTuple):
    """The questions for which a function gives one of some values, such as those of a subtype."""

    of: Callable[[Question], Hashable]
    values: Collection[Hashable]


def of_metric(
    metric: Metric,
    phase: Phase,
    *,
    covers: Callable[[Question], bool] = every_question,
    part: QuestionPart | None = None,
    condition: Condition = "image",
    scale: float = 1.0,
) -> Measure:
    """Returns the measure that is a metric on some of the questions; `scale` is 100 for a percentage."""

    def measure(answers: Answers) -> CellValue | None:
        rows = covered(answers, phase, condition, lambda each: metric.covers(each) and covers(each), part)
        if not rows or not metric.is_defined_on([row.question for row in rows]):
            return None
        value = metric.value(rows)
        return (
            CellValue(scale * value, len(rows), partial(_interval, metric, rows, scale))
            if math.isfinite(value)
            else None
        )

    return measure


def of_rule(rule: ReplyRule, name: str, phase: Phase | None, *, scale: float = 1.0, is_mean: bool = True) -> Measure:
    """Returns the measure that is a number of another tool's rule on the generated replies.

    Args:
        phase: The phase; None is the last that was answered.
        is_mean: Whether the number is the mean of those of single replies; one of a whole corpus has no interval.
    """

    def measure(answers: Answers) -> CellValue | None:
        of_phase = [*answers][-1] if phase is None else phase
        rows = answers[of_phase].rows("image") if of_phase in answers else ()
        said = [row.prediction.text if row.prediction is not None else None for row in rows]
        if all(text is None for text in said):
            return None
        replies = [(row.question, text or "") for row, text in zip(rows, said, strict=True)]
        value = rule.score(replies).get(name)
        if value is None:
            return None
        single = [(pair[0].patient_id, rule.score([pair]).get(name)) for pair in replies]
        counted = [(patient, each) for patient, each in single if each is not None]
        interval = partial(_interval_of_mean, value, counted, scale) if is_mean else no_interval
        return CellValue(scale * value, len(counted), interval)

    return measure


def _interval_of_mean(value: float, counted: Sequence[tuple[str, float]], scale: float) -> Interval | None:
    values = [each for _, each in counted]
    if not values or abs(math.fsum(values) / len(values) - value) > _ROUNDING:
        return None
    low, high = mean_interval(values, [patient for patient, _ in counted])
    return Interval(scale * low, scale * high)


def _interval(metric: Metric, rows: Sequence[ParsedReply], scale: float) -> Interval | None:
    found = score_rows(rows, metric).ci95
    return found and Interval(scale * found.low, scale * found.high)


def gain_of(
    metric: Metric,
    *,
    before: tuple[Phase, Condition] = ("zero_shot", "image"),
    after: tuple[Phase, Condition] = ("final", "image"),
    covers: Callable[[Question], bool] = every_question,
    scale: float = 1.0,
) -> Measure:
    """Returns the measure of a metric on the answers of a phase under a condition minus others, paired by question."""

    def measure(answers: Answers) -> CellValue | None:
        sides = [
            {row.question.id: row for row in covered(answers, *side, lambda each: metric.covers(each) and covers(each))}
            for side in (before, after)
        ]
        both = [name for name in sides[0] if name in sides[1]]
        return _gain(metric, *([side[name] for name in both] for side in sides), scale=scale) if both else None

    return measure


def _gain(metric: Metric, before: Sequence[ParsedReply], after: Sequence[ParsedReply], *, scale: float) -> CellValue:
    def interval() -> Interval:
        patients = [row.question.patient_id for row in before]
        right = correctness(before), correctness(after)
        low, high = statistic_gain_interval(
            metric.on(before),
            metric.on(after),
            patients,
            right=None if right[0] is None or right[1] is None else (right[0], right[1]),
            bounds=metric.bounds,
        )
        return Interval(scale * low, scale * high)

    return CellValue(scale * (metric.value(after) - metric.value(before)), len(before), interval)


def counted(chosen: Callable[[Answers], Sequence[tuple[bool, str]]]) -> Measure:
    """Returns the measure that counts questions.

    Args:
        chosen: Returns for each question whether it counts, and its patient.
    """

    def measure(answers: Answers) -> CellValue | None:
        found = chosen(answers)
        if not found:
            return None
        n = len(found)

        def interval() -> Interval:
            low, high = mean_interval([float(each) for each, _ in found], [patient for _, patient in found])
            return Interval(n * low, n * high)

        return CellValue(float(sum(each for each, _ in found)), n, interval)

    return measure


def covered(
    answers: Answers,
    phase: Phase,
    condition: Condition,
    covers: Callable[[Question], bool],
    part: QuestionPart | None = None,
) -> list[ParsedReply]:
    """Returns the scored rows of a phase under a condition that are about some questions; [] where nothing was asked.

    A question that was not answered counts as wrong, but under a condition that nothing was asked under.
    """
    if phase not in answers:
        return []
    found = answers[phase]
    asked = found.rows(condition) if part is None else found.part(condition, *part)
    rows = [row for row in asked if covers(row.question)]
    return [row for row in rows if not row.unscored] if any(row.is_answered for row in rows) else []


def share(printed: float, n: int) -> Interval:
    """Returns the interval of a share of n questions; of a mean of numbers from 0 to 1 it is at most as wide."""
    return wilson(min(max(printed, 0.0), 1.0) * n, n)


def percentage(printed: float, n: int) -> Interval:
    """Returns the interval of a share that is printed as a percentage."""
    low, high = share(printed / 100, n)
    return Interval(100 * low, 100 * high)


def count(printed: float, n: int) -> Interval:
    """Returns the interval of a number of questions out of n."""
    low, high = share(printed / n, n)
    return Interval(n * low, n * high)


def mean_up_to(most: float) -> PrintedInterval:
    """Returns the interval of a mean of numbers from 0 to `most`, which is at most that of as large a share."""

    def interval(printed: float, n: int) -> Interval:
        low, high = share(printed / most, n)
        return Interval(most * low, most * high)

    return interval


def change_up_to(most: float) -> PrintedInterval:
    """Returns the interval of the change of a mean from 0 to `most` between two evaluations, at its widest."""

    def interval(printed: float, n: int) -> Interval:
        reach = most * normal_quantile() * math.sqrt(2 * 0.25 / n)
        return Interval(printed - reach, printed + reach)

    return interval
