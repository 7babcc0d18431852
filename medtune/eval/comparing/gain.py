"""Computes the gain between two phases, paired by question, and the mean gain of runs that differ in their seed.

A gain is judged by the test that swaps whole patients (`patient_swaps`). McNemar's test, which takes questions as
independent, stands beside it. The p values of all levels of all facets and of all answers, which stand on one page, are
adjusted by Holm's method as one family; what is asked twice, of the same questions, is one test of it.

The gain of a recipe varies with the patients that were asked and with the seed of the run. All runs answer the same
questions, so that its variance has two parts: that of the mean over the runs, by patients, and that of the runs' gains,
by seeds. The interval is that of a gain with the sum of both. Because a handful of seeds says little about how much
seeds vary, its t quantile is the mean of those of patients and of seeds, weighted by their variances. Chance in the
answers counts in both parts, which makes the interval too wide rather than too narrow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from medtune.data.types import Interval
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.results.gain_schema import Changed, Gain, LevelGain, Readability
from medtune.eval.rows import Rows
from medtune.eval.scoring.answer_classes import is_scored_choice, task_name
from medtune.eval.scoring.score import PhaseScores, correctness, folds_of, numbers_by_level, patient_of, share_right
from medtune.eval.scoring.tables import finite_number
from medtune.eval.statistics import Floats, Numbers, cluster_codes
from medtune.eval.statistics.intervals import METHOD, SecondPart, gain_limits, over_folds, statistic_gain_interval
from medtune.eval.statistics.patient_swaps import holm, mcnemar_exact, patient_p
from medtune.eval.statistics.spread import Term, spread

MIN_QUESTIONS = 5
"""The smallest number of questions with a true answer for which this answer is compared. The value is our own choice.
"""

Name = TypeVar("Name")
Level = TypeVar("Level", bound=LevelGain)
MIN_SEEDS = 2
SEEDS_METHOD = f"{METHOD}; over seeds and patients by Cochran's t"


@dataclass(frozen=True, kw_only=True)
class PairedGain(LevelGain):
    """The gain on some of the questions, with what a file of another tool may lack.

    Where questions were asked in several passes, the value, its interval and its p value are of the mean over the
    passes. The four counts and McNemar's test count a question as right if more than half of its answers are.
    """

    num_patients: int
    ci95: Interval
    permutation_p: float


@dataclass(frozen=True, kw_only=True)
class Gains(PairedGain, Gain):
    # The gain by facet and level, without levels that have no question with a score in both phases.
    by: Mapping[str, Mapping[str, PairedGain]]
    # The change of the share of right ones by task and true answer: of each class how many were found. The tasks are
    # those that have answer classes (`answer_classes`), and the answers those of at least `MIN_QUESTIONS` questions.
    answers: Mapping[str, Mapping[str, PairedGain]] = field(default_factory=dict)


def gain_between(before: PhaseScores, after: PhaseScores, benchmark: Benchmark) -> Gains | None:
    """Returns the gain of the primary metric from `before` to `after`; None if no question has a score in both."""
    if before.parser != after.parser:
        raise ValueError(f"before was read by {before.parser!r}, after by {after.parser!r}; score both with one parser")
    ids = [row.question.id for row in before.rows], [row.question.id for row in after.rows]
    if ids[0] != ids[1]:
        only = sorted(set(ids[0]) ^ set(ids[1]))
        raise ValueError(
            f"the two phases scored different questions ({len(ids[0])} before, {len(ids[1])} after, {len(only)} in one "
            f"alone: {only[:3]}); a gain is paired: evaluate the same questions in the same order"
        )

    both = Rows([*before.rows, *after.rows])
    is_scored = np.array([not (one.unscored or two.unscored) for one, two in zip(before.rows, after.rows, strict=True)])

    def of(numbers: Numbers) -> PairedGain | None:
        scored = numbers[is_scored[numbers]]
        if not scored.size:
            return None
        gain = _level_gain(_pairs(both, scored), benchmark.primary_metric)
        return replace(gain, unscored=numbers.size - scored.size)

    by: dict[str, dict[str, PairedGain]] = {}
    tested: dict[tuple[str, str], tuple[str, ...]] = {}
    for facet in benchmark.facets_of(row.question for row in before.rows):
        asked = numbers_by_level(before.rows, facet)
        by[facet] = {name: gain for name, numbers in asked.items() if (gain := of(numbers))}
        tested |= {(facet, name): tuple(ids[0][number] for number in numbers) for name, numbers in asked.items()}
    overall = of(np.arange(len(before.rows)))
    if overall is None:
        return None
    tasks = {task.name for task in after.classes}
    answers = _answers(both, np.flatnonzero(is_scored), tasks, facet=benchmark.class_facet)
    one_family = adjusted_by_holm(
        {
            **{tested[facet, name]: level for facet, found in by.items() for name, level in found.items()},
            **{("answers", task, name): level for task, found in answers.items() for name, level in found.items()},
        }
    )
    for facet, found_levels in by.items():
        for name in found_levels:
            p_holm = one_family[tested[facet, name]].permutation_p_holm
            found_levels[name] = replace(found_levels[name], permutation_p_holm=p_holm)
    for task, found_levels in answers.items():
        for name in found_levels:
            found_levels[name] = one_family["answers", task, name]
    return Gains(**vars(overall), by=by, answers=answers)


def level_gain(
    before: Sequence[ParsedReply], after: Sequence[ParsedReply], metric: Metric, *, seed: int = 0
) -> PairedGain:
    """Returns the gain of a metric on scored rows that are paired by position."""
    return _level_gain(Rows([*before, *after]), metric, seed=seed)


def _level_gain(both: Rows[ParsedReply], metric: Metric, *, seed: int = 0) -> PairedGain:
    """Returns the gain of rows of which the second half are those after, about the same questions as the first."""
    gain = _gain_of_all(both, metric, seed=seed)
    return replace(gain, readability=_readability(gain, both, metric, seed=seed))


def _pairs(both: Rows[ParsedReply], numbers: Numbers) -> Rows[ParsedReply]:
    return both.part(np.concatenate([numbers, numbers + len(both) // 2]))


def _readability(gain: PairedGain, both: Rows[ParsedReply], metric: Metric, *, seed: int) -> Readability | None:
    """Returns the readability of a gain, for which a missing reply counts as unread; None if all could be read."""
    first, second = np.split(both.column(_is_read) > 0, 2)
    num_both = int(np.sum(first & second))
    if num_both == first.size:
        return None
    # Rows of all questions, because a composite metric has no value on some of them.
    earlier = np.arange(first.size)
    kept = both.part(np.concatenate([earlier, np.where(first & second, earlier + first.size, earlier)]))
    part = _gain_of_all(kept, metric, seed=seed) if num_both else None
    return Readability(
        only_before=int(np.sum(first & ~second)),
        only_after=int(np.sum(~first & second)),
        neither=int(np.sum(~first & ~second)),
        both=num_both,
        value=part.value if part else None,
        ci95=part.ci95 if part else None,
        permutation_p=part.permutation_p if part else None,
        format_value=gain.value - (part.value if part else 0.0),
    )


def _is_read(row: ParsedReply) -> bool:
    return all(reply.parsed is not None for reply in (row, *row.later))


def _gain_of_all(both: Rows[ParsedReply], metric: Metric, *, seed: int) -> PairedGain:
    before, after = (both.part(numbers) for numbers in np.split(np.arange(len(both)), 2))
    right, patients = both_correctness(before, after), before.codes(patient_of)
    earlier, later = metric.on(before), metric.on(after)
    first, second = earlier.value(), later.value()
    was, is_now = before.column(share_right) > 0.5, after.column(share_right) > 0.5
    only_before, only_after = int(np.sum(was & ~is_now)), int(np.sum(~was & is_now))
    return PairedGain(
        value=second - first,
        before=finite_number(first),
        after=finite_number(second),
        n=len(before),
        num_patients=np.unique(patients).size,
        ci95=over_folds(
            lambda clusters: statistic_gain_interval(earlier, later, clusters, right=right, bounds=metric.bounds),
            patients,
            folds_of(before),
        ),
        permutation_p=patient_p(metric.on(both), patients, seed=seed),
        mcnemar_p=mcnemar_exact(only_before, only_after),
        counts=Changed(
            both_right=int(np.sum(was & is_now)),
            only_before=only_before,
            only_after=only_after,
            both_wrong=int(np.sum(~was & ~is_now)),
        ),
    )


def _answers(
    both: Rows[ParsedReply], scored: Numbers, tasks: Collection[str], *, facet: str
) -> dict[str, dict[str, PairedGain]]:
    asked: dict[tuple[str, str], list[int]] = {}
    for number, row in zip(scored.tolist(), both.part(scored), strict=True):
        if is_scored_choice(row) and (task := task_name(row.question, facet)) in tasks:
            asked.setdefault((task, row.question.answer), []).append(number)
    right = accuracy()
    found = {
        name: _level_gain(_pairs(both, np.array(numbers)), right)
        for name, numbers in asked.items()
        if len(numbers) >= MIN_QUESTIONS
    }
    by: dict[str, dict[str, PairedGain]] = {}
    for (task, answer), level in found.items():
        by.setdefault(task, {})[answer] = level
    return by


def adjusted_by_holm(gains: Mapping[Name, Level]) -> dict[Name, Level]:
    """Returns the gains that were tested, with `permutation_p_holm`: `permutation_p` after Holm's correction."""
    tested = {name: gain.permutation_p for name, gain in gains.items() if gain.permutation_p is not None}
    adjusted = holm([*tested.values()]).p_values
    return {name: replace(gains[name], permutation_p_holm=p) for name, p in zip(tested, adjusted, strict=True)}


def both_correctness(before: Sequence[ParsedReply], after: Sequence[ParsedReply]) -> tuple[Floats, Floats] | None:
    earlier, later = correctness(before), correctness(after)
    return (earlier, later) if earlier is not None and later is not None else None


@dataclass(frozen=True, slots=True)
class SeedsGain:
    """The gain of a recipe over several seeds."""

    value: float  # The mean of the runs' gains.
    per_seed: tuple[float, ...]
    seed_sd: float  # Standard deviation of the runs' gains.
    # 95 % interval of the mean over seeds and patients (`SEEDS_METHOD`); None if the metric has no limit and there is
    # only one patient or no answer changed.
    ci95: Interval | None
    n: int
    num_patients: int


def seeds_gain(runs: Sequence[tuple[Sequence[ParsedReply], Sequence[ParsedReply]]], metric: Metric) -> SeedsGain:
    """Returns the mean gain of runs that differ in their seed alone, about the same questions in the same order.

    Source: Two crossed sources of variance, their sum as a safe estimate: Owen 2007, doi:10.1214/07-AOAS122.
    """
    if len(runs) < MIN_SEEDS:
        raise ValueError(f"the spread over seeds needs at least {MIN_SEEDS} runs, got {len(runs)}")
    ids = {tuple(row.question.id for row in phase) for run in runs for phase in run}
    if len(ids) > 1:
        raise ValueError("the runs scored different questions; all seeds of a recipe have to answer the same ones")
    patients = [row.question.patient_id for row in runs[0][0]]
    codes = cluster_codes(patients)
    measured = [(metric.on(before), metric.on(after)) for before, after in runs]
    per_seed = [after.value() - before.value() for before, after in measured]
    share = 1 / len(runs)
    found = spread([term for before, after in measured for term in (Term(-share, before), Term(share, after))], codes)
    seed_sd = float(np.std(per_seed, ddof=1))
    interval = gain_limits(
        found,
        codes,
        _changes(runs),
        bounds=metric.bounds,
        second=SecondPart(variance=seed_sd**2 * share, freedom=len(runs) - 1),
    ).interval
    return SeedsGain(
        value=float(np.mean(per_seed)),
        per_seed=tuple(per_seed),
        seed_sd=seed_sd,
        ci95=interval if interval.low < interval.high else None,
        n=len(patients),
        num_patients=len(set(patients)),
    )


def _changes(runs: Sequence[tuple[Sequence[ParsedReply], Sequence[ParsedReply]]]) -> Floats | None:
    found = []
    for before, after in runs:
        earlier, later = correctness(before), correctness(after)
        if earlier is None or later is None:
            return None
        found.append(np.subtract(later, earlier))
    return np.array(found, dtype=np.float64)
