"""Computes the scores of one phase: the primary metric overall and by facet, and every metric of every parser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medtune.data.catalog import nearest
from medtune.data.types import Condition, Prediction, Question, Score
from medtune.eval.benchmark import Benchmark, Evidence
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.baselines import BASELINES, blind, train_answers
from medtune.eval.scoring.bertscore import BertModel
from medtune.eval.scoring.parse_replies import LIKELIHOOD, parse_all
from medtune.eval.scoring.refusals import Refusals, count_refusals
from medtune.eval.scoring.tables import Table
from medtune.eval.scoring.uncounted_questions import uncounted
from medtune.eval.statistics.calibration import Calibration, calibrated
from medtune.eval.statistics.intervals import statistic_interval
from medtune.eval.statistics.statistic import Statistic

_BLIND: tuple[Condition, ...] = ("text_only", "other_image")


@dataclass(frozen=True, slots=True)
class LevelScore:
    """The primary metric on some of the questions.

    Attributes:
        score: The primary metric.
        unanswered: Number of questions without a prediction, which count as wrong.
        baselines: The primary metric of answers that do not see the image, by name; None if a baseline does not apply,
            or if none of its answers has been judged.
    """

    score: Score
    unanswered: int
    baselines: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class PhaseScores:
    """All scores of one evaluation.

    Attributes:
        parser: Name of the parser whose answers `overall` and `by` count.
        overall: The primary metric on all questions that it is about.
        rows: The parsed replies behind `overall`, in the order of the questions, with those that wait for a judge.
        by: The primary metric by facet and level.
        metrics: Every metric by condition, parser and name, without the metrics that no question is about.
        tables: The benchmark's own tables.
        calibration: The calibration of the likelihood reading under condition "image"; None without such a reading.
        refusals: The refusals among the generations; None where there are no generations.
        unscored: Number of answers that wait for a judge, to all questions, whatever the primary metric is about.
        uncounted: Number of questions that the primary metric is about and `parser` cannot read, by task.
    """

    parser: str
    rows: tuple[ParsedReply, ...]
    overall: LevelScore
    by: Mapping[str, Mapping[str, LevelScore]]
    metrics: Mapping[Condition, Mapping[str, Mapping[str, Score]]]
    tables: tuple[Table, ...] = ()
    calibration: Calibration | None = None
    refusals: Refusals | None = None
    unscored: int = 0
    uncounted: Mapping[str, int] = field(default_factory=dict)


def score_phase(
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    benchmark: Benchmark,
    *,
    train: Sequence[Question] = (),
    parser: str | None = None,
    text_model: BertModel | None = None,
) -> PhaseScores:
    """Returns all scores of one evaluation.

    Args:
        questions: The questions that were to be answered; one without a prediction counts as wrong.
        predictions: The predictions, in any order and from any tool.
        benchmark: The benchmark whose parsers and metrics are used.
        train: The train split, for the baselines that learn from it; empty where there is none.
        parser: Name of the primary parser; by default "likelihood" where the predictions have one under
            condition "image" and all questions have options, else the benchmark's first.
        text_model: The model for the BERTScore of free text; None leaves it out.

    Raises:
        ValueError: No questions, no such parser, or a prediction does not fit the questions.
    """
    if not questions:
        raise ValueError("there are no questions to score; is the split empty?")
    replies, refusals = parse_all(questions, predictions, benchmark), count_refusals(predictions)
    parser = _parser(parser, replies["image"], benchmark)
    metric = benchmark.primary_metric
    rows = metric.covered(replies["image"][parser])
    if not rows:
        raise ValueError(f"no question of this split is one that {benchmark.primary} is about; is it the right folder?")
    baselines = blind([row.question for row in rows], train_answers(train), metric)
    # Every condition has the same questions in the same order, so that row numbers are valid for all of them.
    unseeing = {condition: metric.covered(replies.get(condition, {}).get(parser, ())) for condition in _BLIND}
    measured = {condition: metric.on(seen) for condition, seen in unseeing.items() if seen}
    statistic = metric.on(rows)

    def level(numbers: Sequence[int]) -> LevelScore:
        chosen = [rows[number] for number in numbers]
        found = baselines.of(numbers)
        for condition in _BLIND:
            seen = [number for number in numbers if condition in measured and not unseeing[condition][number].unscored]
            is_seen = any(unseeing[condition][number].prediction for number in seen)
            found[condition] = measured[condition].part(seen).value() if is_seen else None
        return LevelScore(
            score=score_rows(chosen, metric, statistic=statistic.part(numbers)),
            unanswered=sum(row.prediction is None for row in chosen),
            baselines={name: found[name] for name in BASELINES},
        )

    return PhaseScores(
        parser=parser,
        rows=tuple(rows),
        overall=level(range(len(rows))),
        by={
            facet: {name: level(numbers) for name, numbers in _numbers(rows, facet).items()}
            for facet in benchmark.facets
        },
        metrics={
            condition: {name: _every_metric(parsed, benchmark) for name, parsed in parsers.items()}
            for condition, parsers in replies.items()
        },
        tables=tuple(benchmark.tables(Evidence(questions, predictions, replies, parser, text_model))),
        calibration=_calibration(replies["image"].get(LIKELIHOOD, ())),
        refusals=refusals if refusals.n else None,
        unscored=sum(row.unscored for row in replies["image"].get(_generation(parser, benchmark), ())),
        uncounted=uncounted(questions, rows, metric),
    )


def _generation(parser: str, benchmark: Benchmark) -> str:
    """Returns the primary parser, or the first parser of generations if the primary one is a likelihood."""
    return parser if parser in benchmark.parsers else next(iter(benchmark.parsers))


def _calibration(rows: Sequence[ParsedReply]) -> Calibration | None:
    answered = [
        (row.prediction.option_logprobs, float(row.correct))
        for row in rows
        if row.prediction is not None and row.prediction.option_logprobs
    ]
    return calibrated([found for found, _ in answered], [right for _, right in answered]) if answered else None


def score_rows(rows: Sequence[ParsedReply], metric: Metric, *, statistic: Statistic | None = None) -> Score:
    """Returns a metric's value on parsed replies, with an interval that takes patients as clusters.

    There is no interval if the metric has no limit and its rows do not differ, or if its value is not finite. Rows that
    wait for a judge are counted and left out; if all rows wait, the value is NaN.

    Args:
        rows: The parsed replies, at least one.
        metric: The metric to compute.
        statistic: The metric's statistic of all these rows, if it is known already.

    Raises:
        ValueError: There are no rows, or the metric leaves its bounds.
    """
    parsed = [number for number, row in enumerate(rows) if not row.unscored]
    unscored = len(rows) - len(parsed)
    if unscored:
        rows = [rows[number] for number in parsed]
        if not rows:
            return Score(value=math.nan, n=0, ci95=None, unscored=unscored)
        statistic = statistic and statistic.part(parsed)
    statistic = statistic or metric.on(rows)
    value = statistic.value()
    unparsable = sum(row.prediction is not None and row.parsed is None for row in rows)
    if not math.isfinite(value):
        return Score(value=value, n=len(rows), ci95=None, unparsable=unparsable, unscored=unscored)
    right, patients = correctness(rows), [row.question.patient_id for row in rows]
    interval = statistic_interval(statistic, patients, right=right, bounds=metric.bounds)
    has_width = interval.low < interval.high
    ci95 = interval if has_width else None
    return Score(value=value, n=len(rows), ci95=ci95, unparsable=unparsable, unscored=unscored)


def _every_metric(rows: Sequence[ParsedReply], benchmark: Benchmark) -> dict[str, Score]:
    found = {name: metric.covered(rows) for name, metric in benchmark.metrics.items()}
    return {name: score_rows(rows, benchmark.metrics[name]) for name, rows in found.items() if rows}


def correctness(rows: Sequence[ParsedReply]) -> list[float] | None:
    """Returns each row's score, 1.0 if right and 0.0 if wrong; None if some rows are not simply right or wrong."""
    if any(row.question.answer_kind not in ("choice", "yes_no") for row in rows):
        return None
    return [float(row.correct) for row in rows]


def levels(rows: Sequence[ParsedReply], facet: str) -> dict[str, list[ParsedReply]]:
    """Returns the rows by their level of a facet, without rows that have none, in order of appearance."""
    return {name: [rows[number] for number in numbers] for name, numbers in _numbers(rows, facet).items()}


def _numbers(rows: Sequence[ParsedReply], facet: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if facet in row.question.facets:
            found.setdefault(row.question.facets[facet], []).append(number)
    return found


def _parser(wanted: str | None, parsed: Mapping[str, Sequence[ParsedReply]], benchmark: Benchmark) -> str:
    if wanted is None:
        first = next(iter(benchmark.parsers))
        # Questions without options cannot be read by likelihood. They are counted, so that outputs can name them.
        covers_all = len(parsed.get(LIKELIHOOD, ())) >= len(parsed.get(first, ()))
        return LIKELIHOOD if LIKELIHOOD in parsed and covers_all else first
    if wanted not in parsed:
        known = f"{nearest(wanted, parsed)} There are: {', '.join(parsed)}"
        raise ValueError(f"no parser {wanted!r} for these predictions.{known}")
    return wanted
