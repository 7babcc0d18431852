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
from medtune.eval.metric import Metric, ParsedReply, num_passes, passes_text
from medtune.eval.results.phase_schema import ConfidenceBin, Level, Measured, Phase, Reliability
from medtune.eval.rows import Rows, as_rows
from medtune.eval.scoring.answer_classes import classes_by_task
from medtune.eval.scoring.baselines import BASELINES, TrainSplit, blind, train_answers
from medtune.eval.scoring.bertscore import BERTSCORE, BertModel, mean_f1
from medtune.eval.scoring.counted import NOT_ABOUT, WAITS, CountedRows, counted, is_waiting, reads_replies_alone
from medtune.eval.scoring.parse_replies import LIKELIHOOD, parse_all, primary_parser
from medtune.eval.scoring.reply_ends import count_cut, count_refusals
from medtune.eval.scoring.reply_rules import rules_table
from medtune.eval.scoring.tables import Cell, Table, finite_number, finite_table
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


def mean_tables(passes: Sequence[Sequence[Table]]) -> list[Table]:
    """Returns the tables with the mean over the passes in each cell, and a note that says so where passes differ.

    Tables are matched by their titles, and rows by their position if the passes have equally many, else by their texts.
    A cell whose text or rank differs between passes shows all of them, and a cell without a value in one of the passes
    has none. Notes that differ are shown for each pass.
    """
    if len(passes) == 1:
        return list(passes[0])
    titles = dict.fromkeys(table.title for tables in passes for table in tables)
    found = [[table for tables in passes for table in tables if table.title == title] for title in titles]
    return [_mean_table(tables, num_passes=len(passes)) for tables in found]


def _mean_table(tables: Sequence[Table], *, num_passes: int) -> Table:
    first = tables[0]
    if all(table == first for table in tables) and len(tables) == num_passes:
        return first
    named = [_named_rows(table, by_place=len({len(table.rows) for table in tables}) == 1) for table in tables]
    keys = dict.fromkeys(key for rows in named for key in rows)
    rows = [[found.get(key, (None,) * len(first.columns)) for found in named] for key in keys]
    most = max(len(table.notes) for table in tables)
    notes = [_note([table.notes for table in tables], place) for place in range(most)]
    return replace(
        first,
        rows=tuple(
            tuple(_cell(cells, name) for cells, name in zip(zip(*each, strict=True), first.columns, strict=True))
            for each in rows
        ),
        notes=(*notes, *_said_of(len(tables), num_passes)),
    )


def _named_rows(table: Table, *, by_place: bool) -> dict[tuple[object, ...], tuple[Cell, ...]]:
    found: dict[tuple[object, ...], tuple[Cell, ...]] = {}
    for place, row in enumerate(table.rows):
        texts = tuple(cell for cell in row if isinstance(cell, str))
        number = sum(key[:-1] == texts for key in found)
        found[(place,) if by_place else (*texts, number)] = row
    return found


def _cell(cells: Sequence[Cell], column: str) -> Cell:
    distinct = list(dict.fromkeys(cells))
    if len(distinct) == 1:
        return distinct[0]
    numbers = [cell for cell in cells if cell is not None and not isinstance(cell, str)]
    if len(numbers) < len(cells):
        texts = dict.fromkeys(cell for cell in cells if isinstance(cell, str))
        return " / ".join(text or "-" for text in texts) if texts else None
    if column == "rank":
        return f"{min(numbers)}-{max(numbers)}"
    return sum(numbers) / len(numbers)


def _said_of(found: int, num_passes: int) -> list[str]:
    said = [f"Each cell is the {text}."] if (text := passes_text(found)) else []
    return said + (
        [f"Made of {found} of the {num_passes} passes; the others have no such table."] * (found < num_passes)
    )


def _note(notes: Sequence[Sequence[str]], place: int) -> str:
    said = [each[place] if place < len(each) else "" for each in notes]
    if len(set(said)) == 1:
        return said[0]
    return " ".join(f"Pass {number}: {note}" for number, note in enumerate(said, start=1) if note)


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
    baselines = blind([row.question for row in rows], learnt, metric)
    # Every condition has the same questions in the same order, so that row numbers are valid for all of them.
    unseeing = {condition: counted(replies.get(condition, {}).get(parser, ()), metric).about for condition in _BLIND}
    measured = {condition: metric.on(seen) for condition, seen in unseeing.items() if seen}
    passes = metric.by_pass(rows)

    def level(numbers: Numbers) -> Level:
        chosen, found = rows.part(numbers), baselines.of(numbers)
        for condition in _BLIND:
            seen = np.array([], dtype=np.intp)
            if condition in measured:
                seen = numbers[unseeing[condition].part(numbers).column(is_waiting) == 0]
            is_seen = any(row.is_answered for row in unseeing[condition].part(seen))
            found[condition] = measured[condition].part(seen).value() if is_seen else None
        missing = chosen.column(_num_missing)
        return Level(
            **vars(score_rows(chosen, metric, passes=[each.part(numbers) for each in passes])),
            unanswered=int(missing.sum()),
            baselines={name: finite_number(found[name]) for name in BASELINES},
            partly_answered=int(np.sum((missing > 0) & (missing < chosen.column(_num_passes)))),
        )

    metrics = benchmark.metrics if text_model is None else {**benchmark.metrics, BERTSCORE: mean_f1(text_model)}
    evidence = Evidence(questions, predictions, replies, parser, text_model, unlike_published, train, before)
    alone = {name: reads_replies_alone(name, questions, predictions, benchmark.parsers) for name in benchmark.parsers}
    _, *others = parts(every, benchmark)
    tables = mean_tables([[*benchmark.tables(each), *_rules(each, benchmark, alone)] for each in evidence.by_pass()])
    classes = classes_by_task(replies["image"], parser=parser, facet=benchmark.class_facet)
    return PhaseScores(
        parser=parser,
        rows=tuple(rows),
        overall=level(np.arange(len(rows))),
        by={
            facet: {name: level(numbers) for name, numbers in numbers_by_level(rows, facet).items()}
            for facet in benchmark.facets_of(row.question for row in rows)
        },
        metrics={
            condition: {
                name: _every_metric(
                    every if condition == "image" and name == parser else as_rows(parsed),
                    metrics,
                    replies_alone=name != parser and alone.get(name, False),
                )
                for name, parsed in parsers.items()
            }
            for condition, parsers in replies.items()
        },
        tables=tuple(map(finite_table, [*tables, *benchmark.repeat_tables(evidence)])),
        calibration=_calibration(replies["image"].get(LIKELIHOOD, ())),
        refusals=refusals if refusals.n else None,
        cut=count_cut(predictions),
        unscored=sum(row.unscored for row in replies["image"].get(_generation(parser, benchmark), ())),
        asked=len(questions),
        outside={name: score_rows(found.about, benchmark.metrics[name]) for name, found in others},
        classes=classes.found,
        without_classes=classes.left_out,
        likelihoods=tuple(row for row in replies["image"].get(LIKELIHOOD, ()) if row.question.options),
        other_answers=other_answers(predictions, parser, benchmark),
    )


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


def _generation(parser: str, benchmark: Benchmark) -> str:
    return parser if parser in benchmark.parsers else next(iter(benchmark.parsers))


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


def _every_metric(
    rows: Rows[ParsedReply], metrics: Mapping[str, Metric], *, replies_alone: bool
) -> dict[str, Measured]:
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
