"""Computes the scores of one phase: the primary metric overall and by facet, and every metric of every parser."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from medtune.data.catalog import nearest
from medtune.data.grouping import grouped
from medtune.data.types import FOLD, Condition, Prediction, Question, Reading
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import Evidence, ParsedReplies
from medtune.eval.metric import Metric, ParsedReply, num_passes
from medtune.eval.results.phase_schema import ConfidenceBin, Level, Measured, Phase, Reliability
from medtune.eval.rows import Rows, as_rows
from medtune.eval.scoring.answer_classes import classes_by_task
from medtune.eval.scoring.baselines import BASELINES, TrainAnswers, TrainSplit, blind, train_answers
from medtune.eval.scoring.bertscore import BERTSCORE, BertModel, mean_f1
from medtune.eval.scoring.counted import NOT_ABOUT, WAITS, CountedRows, counted, is_waiting, reads_replies_alone
from medtune.eval.scoring.parse_replies import LIKELIHOOD, parse_all, primary_parser
from medtune.eval.scoring.reply_ends import count_cut, count_refusals
from medtune.eval.scoring.reply_rules import rules_table
from medtune.eval.scoring.tables import Table, finite_number, finite_table, mean_tables
from medtune.eval.statistics import Floats, Numbers
from medtune.eval.statistics.calibration import (
    NUM_BINS,
    brier_score,
    expected_calibration_error,
    option_probabilities,
    right_closed_bins,
    true_place,
)
from medtune.eval.statistics.column_sums import Statistic, mean_over_passes, sd_of_passes
from medtune.eval.statistics.intervals import over_folds, statistic_interval

_BLIND: tuple[Condition, ...] = ("text_only", "other_image")


@dataclass(frozen=True, kw_only=True)
class PhaseScores(Phase):
    """What scores.json has of an evaluation, and the replies behind it."""

    # The parsed replies behind `overall`, in the order of the questions, with those that wait for a judge.
    rows: tuple[ParsedReply, ...]
    asked: int = 0
    # The likelihood readings under condition "image", one for each question that has options.
    likelihoods: tuple[ParsedReply, ...] = ()


def score_phase(
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    benchmark: Benchmark,
    *,
    train: Iterable[Question] = (),
    parser: str | None = None,
    text_model: BertModel | None = None,
    unlike_published: str = "",
    before: float | None = None,
    parsed: ParsedReplies | None = None,
) -> PhaseScores:
    """Returns all scores of one evaluation.

    Args:
        train: The train split, for the baselines that learn from it; empty where there is none. A `TrainSplit` that is
            scored with repeatedly is counted once.
        parser: Name of the primary parser; by default "likelihood" where the predictions have one under
            condition "image", else the benchmark's first.
        unlike_published: Why the numbers must not stand among published ones (`why_unlike_published`), ""
            if they may.
        parsed: What `parse_all` returns for these predictions, where it is known already.
    """
    if not questions:
        raise ValueError("there are no questions to score; is the split empty?")
    replies = parse_all(questions, predictions, benchmark) if parsed is None else parsed
    refusals = count_refusals(predictions)
    parser = _parser(parser, replies["image"], benchmark)
    metric, every = benchmark.primary_metric, as_rows(replies["image"][parser])
    rows = counted(every, metric).about
    if not rows:
        raise ValueError(f"no question of this split is one that {benchmark.primary} is about; is it the right folder?")
    learnt = train.answers if isinstance(train, TrainSplit) else train_answers(train)
    levels = _Levels(rows, replies, parser, metric, learnt)
    alone = {name: reads_replies_alone(name, questions, predictions, benchmark.parsers) for name in benchmark.parsers}
    replied = parser if parser in benchmark.parsers else next(iter(benchmark.parsers))
    _, *others = parts(every, benchmark)
    classes = classes_by_task(replies["image"], parser=parser, facet=benchmark.class_facet)
    likelihoods = replies["image"].get(LIKELIHOOD, ())
    evidence = Evidence(questions, predictions, replies, parser, text_model, unlike_published, train, before)
    return PhaseScores(
        parser=parser,
        rows=tuple(rows),
        overall=levels.of(np.arange(len(rows))),
        by={
            facet: {name: levels.of(numbers) for name, numbers in numbers_by_level(rows, facet).items()}
            for facet in benchmark.facets_of(row.question for row in rows)
        },
        metrics=_every_metric(evidence, benchmark, every, alone),
        tables=_tables(evidence, benchmark, alone),
        calibration=_calibration(likelihoods),
        refusals=refusals if refusals.n else None,
        cut=count_cut(predictions),
        unscored=sum(row.unscored for row in replies["image"].get(replied, ())),
        asked=len(questions),
        outside={name: score_rows(found.about, benchmark.metrics[name]) for name, found in others},
        classes=classes.found,
        without_classes=classes.left_out,
        likelihoods=tuple(row for row in likelihoods if row.question.options),
        other_answers=other_answers(predictions, parser, benchmark),
    )


class _Levels:
    """Scores any of the questions that the primary metric is about, beside what answers them without their image."""

    def __init__(
        self, rows: Rows[ParsedReply], replies: ParsedReplies, parser: str, metric: Metric, learnt: TrainAnswers | None
    ) -> None:
        self._rows, self._metric, self._passes = rows, metric, metric.by_pass(rows)
        self._baselines = blind([row.question for row in rows], learnt, metric)
        # Every condition has the same questions in the same order, so that row numbers are valid for all of them.
        read = {condition: replies.get(condition, {}).get(parser, ()) for condition in _BLIND}
        self._unseeing = {condition: counted(found, metric).about for condition, found in read.items() if found}
        self._measured = {condition: metric.on(seen) for condition, seen in self._unseeing.items() if seen}

    def of(self, numbers: Numbers) -> Level:
        """Returns the scores of the questions with these numbers."""
        chosen = self._rows.part(numbers)
        baselines = self._baselines.of(numbers) | {each: self._unseen(each, numbers) for each in _BLIND}
        missing = chosen.column(_num_missing)
        return Level(
            **vars(score_rows(chosen, self._metric, passes=[each.part(numbers) for each in self._passes])),
            unanswered=int(missing.sum()),
            baselines={name: finite_number(baselines[name]) for name in BASELINES},
            partly_answered=int(np.sum((missing > 0) & (missing < chosen.column(_num_passes)))),
        )

    def _unseen(self, condition: Condition, numbers: Numbers) -> float | None:
        if condition not in self._measured:
            return None
        rows = self._unseeing[condition]
        numbers = numbers[rows.part(numbers).column(is_waiting) == 0]
        is_answered = any(row.is_answered for row in rows.part(numbers))
        return self._measured[condition].part(numbers).value() if is_answered else None


def _every_metric(
    evidence: Evidence, benchmark: Benchmark, primary: Rows[ParsedReply], alone: Mapping[str, bool]
) -> dict[str, dict[str, dict[str, Measured]]]:
    """Returns every metric by condition and parser.

    Args:
        primary: The rows under condition "image" that the primary parser read.
        alone: For each of the benchmark's parsers whether it reads questions that were asked for a reply alone.
    """
    metrics, parser, model = benchmark.metrics, evidence.parser, evidence.text_model
    metrics = metrics if model is None else {**metrics, BERTSCORE: mean_f1(model)}
    return {
        condition: {
            name: _metrics_on(
                primary if condition == "image" and name == parser else as_rows(rows),
                metrics,
                replies_alone=name != parser and alone.get(name, False),
            )
            for name, rows in parsers.items()
        }
        for condition, parsers in evidence.parsed.items()
    }


def _tables(evidence: Evidence, benchmark: Benchmark, alone: Mapping[str, bool]) -> tuple[Table, ...]:
    passes = [[*benchmark.tables(each), *_rules(each, benchmark, alone)] for each in evidence.by_pass()]
    return tuple(map(finite_table, [*mean_tables(passes), *benchmark.repeat_tables(evidence)]))


def _rules(evidence: Evidence, benchmark: Benchmark, alone: Mapping[str, bool]) -> list[Table]:
    whole = {name: rows for name, rows in evidence.parsed["image"].items() if name in benchmark.parsers}
    metric = benchmark.primary_metric
    replied = {name: counted(rows, metric, replies_alone=alone[name]).asked for name, rows in whole.items()}
    own = {name: rows for name, rows in replied.items() if rows}
    left_out = max((len(whole[name]) - len(own[name]) for name in own), default=0)
    note = f"Questions with options that were read by likelihood, and were asked for no reply, left out: {left_out:,}."
    return [
        replace(table, notes=(note, *table.notes)) if left_out else table
        for table in rules_table(benchmark.rules, own, benchmark.metrics)
    ]


def other_answers(predictions: Sequence[Prediction], parser: str, benchmark: Benchmark) -> dict[str, int]:
    """Returns the number of predictions of each condition and reading that the score by a parser does not count."""
    reading: Reading = "generation" if parser in benchmark.parsers else "likelihood"
    read = {each.key.question_id for each in predictions if each.key[1:3] == ("image", "likelihood")}
    kinds = Counter(
        key[1:3]
        for key in (prediction.key for prediction in predictions)
        if key[1:3] != ("image", reading)
        # A score by likelihood counts the replies to questions that have no options.
        and not (reading == "likelihood" and key.condition == "image" and key.question_id not in read)
    )
    return {f"{condition}, {how}": count for (condition, how), count in kinds.items()}


def _calibration(rows: Sequence[ParsedReply]) -> Reliability | None:
    answered = [
        (
            option_probabilities(said.option_logprobs),
            float(reply.correct),
            true_place(said.options_shown or row.question.options, row.question.answer),
        )
        for row in rows
        for reply in row.passes
        if (said := reply.prediction) is not None and said.option_logprobs
    ]
    if not answered:
        return None
    shares, correct, true = zip(*answered, strict=True)
    bins = right_closed_bins([max(each) for each in shares], correct, bins=NUM_BINS)
    return Reliability(
        ece=expected_calibration_error(bins),
        brier=fmean(brier_score(each, place) for each, place in zip(shares, true, strict=True)),
        bins=tuple(
            ConfidenceBin(
                low=each.index / NUM_BINS,
                high=(each.index + 1) / NUM_BINS,
                n=each.n,
                confidence=each.confidence,
                accuracy=each.accuracy,
            )
            for each in bins
        ),
    )


def score_rows(rows: Sequence[ParsedReply], metric: Metric, *, passes: Sequence[Statistic] = ()) -> Measured:
    """Returns a metric's value on parsed replies, with an interval that takes patients as clusters.

    If the questions were asked in several passes, the value is the mean over the passes, and `unparsable` counts the
    replies of all of them; `n` is the number of questions in any case. There is no interval if the metric has no limit
    and its rows do not differ, or if its value is not finite. Rows that wait for a judge are counted and left out; if
    all rows wait, there is no value.

    Args:
        passes: The metric's statistic of each pass on all these rows, if they are known already.
    """
    found, repeats = counted(rows, metric), num_passes(rows)
    unscored, places = len(found.left_out(WAITS)), found.places
    if not places.size:
        return Measured(n=0, unparsable=0, unscored=unscored, repeats=repeats)
    if places.size < len(rows):
        passes = [each.part(places) for each in passes]
    rows = found.rows
    passes = passes or metric.by_pass(rows)
    statistic = mean_over_passes(passes)
    value, ci95 = statistic.value(), None
    if math.isfinite(value):
        right, patients = correctness(rows), rows.codes(patient_of)
        interval = over_folds(
            lambda clusters: statistic_interval(statistic, clusters, right=right, bounds=metric.bounds),
            patients,
            folds_of(rows),
        )
        ci95 = interval if interval.low < interval.high else None
    return Measured(
        value=finite_number(value),
        n=len(rows),
        ci95=ci95,
        unparsable=int(rows.column(_num_unread).sum()),
        unscored=unscored,
        repeats=repeats,
        repeat_sd=sd_of_passes([each.value() for each in passes]),
    )


def _metrics_on(rows: Rows[ParsedReply], metrics: Mapping[str, Metric], *, replies_alone: bool) -> dict[str, Measured]:
    found = {name: counted(rows, metric, replies_alone=replies_alone) for name, metric in metrics.items()}
    defined = [
        name
        for name, each in found.items()
        if each.about
        and (not metrics[name].is_composite or metrics[name].is_defined_on([row.question for row in each.asked]))
    ]
    return {name: score_rows(found[name].about, metrics[name]) for name in defined}


def parts(rows: Sequence[ParsedReply], benchmark: Benchmark) -> Iterator[tuple[str, CountedRows]]:
    """Yields the primary metric's name with its rows, and then those of each that is the first about any that are left.

    Together they are about all questions that any metric is about.
    """
    found, name = counted(rows, benchmark.primary_metric), benchmark.primary
    while found.about:
        yield name, found
        rest = found.left_out(NOT_ABOUT)
        part = benchmark.for_part([row.question for row in rest])
        found, name = counted(rest, part.primary_metric), part.primary


def folds_of(rows: Sequence[ParsedReply]) -> list[str]:
    """Returns the fold of each question in a whole cross-validation; empty where there was none."""
    rows = as_rows(rows)
    return [row.question.facets[FOLD] for row in rows.where(rows.column(_is_in_fold) > 0)]


def correctness(rows: Sequence[ParsedReply]) -> Floats | None:
    """Returns the share of right answers to each question; None if some answers are not simply right or wrong."""
    rows = as_rows(rows)
    return rows.column(share_right) if rows.column(_is_simple).all() else None


def levels(rows: Sequence[ParsedReply], facet: str) -> dict[str, list[ParsedReply]]:
    return {name: [rows[number] for number in numbers] for name, numbers in numbers_by_level(rows, facet).items()}


def numbers_by_level(rows: Sequence[ParsedReply], facet: str) -> dict[str, Numbers]:
    """Returns the numbers of the rows of each level of a facet."""
    having = ((number, row.question.facets) for number, row in enumerate(rows) if facet in row.question.facets)
    found = grouped(having, lambda each: each[1][facet])
    return {name: np.array([number for number, _ in each], dtype=np.intp) for name, each in found.items()}


def patient_of(row: ParsedReply) -> str:
    return row.question.patient_id


def share_right(row: ParsedReply) -> float:
    return row.share_right


def _is_simple(row: ParsedReply) -> bool:
    return row.question.answer_kind in ("choice", "yes_no")


def _is_in_fold(row: ParsedReply) -> bool:
    return FOLD in row.question.facets


def _num_passes(row: ParsedReply) -> int:
    return 1 + len(row.later)


def _num_missing(row: ParsedReply) -> int:
    return sum(reply.prediction is None for reply in (row, *row.later))


def _num_unread(row: ParsedReply) -> int:
    return sum(reply.prediction is not None and reply.parsed is None for reply in (row, *row.later))


def _parser(wanted: str | None, parsed: Mapping[str, Sequence[ParsedReply]], benchmark: Benchmark) -> str:
    if wanted is None:
        return primary_parser(("likelihood",) if LIKELIHOOD in parsed else (), benchmark)
    if wanted not in parsed:
        known = f"{nearest(wanted, parsed)} There are: {', '.join(parsed)}"
        raise ValueError(f"no parser {wanted!r} for these predictions.{known}")
    return wanted
