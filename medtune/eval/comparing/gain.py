"""Computes the gain between two phases, paired by question: its interval, its tests and the changed answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medtune.data.types import Interval
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply, scored_everywhere
from medtune.eval.scoring.score import PhaseScores, correctness, levels
from medtune.eval.statistics.intervals import statistic_gain_interval
from medtune.eval.statistics.significance import clustered_permutation, holm, mcnemar_exact

TASK = "task"


@dataclass(frozen=True, slots=True)
class LevelGain:
    """The gain on some of the questions.

    Attributes:
        value: Primary metric after minus before. A value below 0 is a loss, or an improvement if lower is better.
        n: Number of questions whose answers have a score in both phases.
        ci95: 95 % interval of the value, paired by question, with patients as clusters.
        mcnemar_p: Two-sided p value of McNemar's exact test of right and wrong answers, which takes questions as
            independent.
        permutation_p: Two-sided p value of the permutation test of right and wrong answers that flips whole patients.
        both_right: Number of questions right before and after.
        only_before: Number of questions right before and wrong after.
        only_after: Number of questions wrong before and right after.
        both_wrong: Number of questions wrong before and after.
        mcnemar_p_holm: `mcnemar_p` of a task after Holm's correction over the tasks; None for everything but tasks.
        unscored: Number of questions left out because an answer, before or after, waits for a judge.
    """

    value: float
    n: int
    ci95: Interval
    mcnemar_p: float
    permutation_p: float
    both_right: int
    only_before: int
    only_after: int
    both_wrong: int
    mcnemar_p_holm: float | None = None
    unscored: int = 0


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain between two phases.

    Attributes:
        overall: The gain on all questions.
        by: The gain by facet and level, without levels that have no question with a score in both phases.
    """

    overall: LevelGain
    by: Mapping[str, Mapping[str, LevelGain]]


def gain_between(before: PhaseScores, after: PhaseScores, benchmark: Benchmark, *, seed: int = 0) -> Gain | None:
    """Returns the gain of the primary metric from `before` to `after`; None if no question has a score in both.

    Raises:
        ValueError: The phases scored different questions or used different parsers.
    """
    if before.parser != after.parser:
        raise ValueError(f"before was read by {before.parser!r}, after by {after.parser!r}; score both with one parser")
    ids = [row.question.id for row in before.rows], [row.question.id for row in after.rows]
    if ids[0] != ids[1]:
        only = sorted(set(ids[0]) ^ set(ids[1]))
        raise ValueError(
            f"the two phases scored different questions ({len(ids[0])} before, {len(ids[1])} after, {len(only)} in one "
            f"alone: {only[:3]}); a gain is paired: evaluate the same questions in the same order"
        )

    def of(first: Sequence[ParsedReply], second: Sequence[ParsedReply]) -> LevelGain | None:
        earlier, later = scored_everywhere([first, second])
        if not earlier:
            return None
        gain = level_gain(earlier, later, benchmark.primary_metric, seed=seed)
        return replace(gain, unscored=len(first) - len(earlier))

    by: dict[str, dict[str, LevelGain]] = {}
    for facet in benchmark.facets:
        earlier, later = levels(before.rows, facet), levels(after.rows, facet)
        found = {name: of(rows, later[name]) for name, rows in earlier.items()}
        by[facet] = {name: gain for name, gain in found.items() if gain}
    if TASK in by:
        by[TASK] = _holm(by[TASK])
    overall = of(before.rows, after.rows)
    return Gain(overall=overall, by=by) if overall else None


def level_gain(
    before: Sequence[ParsedReply], after: Sequence[ParsedReply], metric: Metric, *, seed: int = 0
) -> LevelGain:
    """Returns the gain of a metric on scored rows that are paired by position.

    Raises:
        ValueError: There are no rows, or not as many before as after.
    """
    right = _both_correctness(before, after)
    patients = [row.question.patient_id for row in before]
    earlier, later = metric.on(before), metric.on(after)
    pairs = [(first.correct, second.correct) for first, second in zip(before, after, strict=True)]
    only_before, only_after = pairs.count((True, False)), pairs.count((False, True))
    return LevelGain(
        value=later.value() - earlier.value(),
        n=len(before),
        ci95=statistic_gain_interval(earlier, later, patients, right=right, bounds=metric.bounds),
        mcnemar_p=mcnemar_exact(only_before, only_after),
        permutation_p=clustered_permutation(
            [float(first) for first, _ in pairs], [float(second) for _, second in pairs], patients, seed=seed
        ),
        both_right=pairs.count((True, True)),
        only_before=only_before,
        only_after=only_after,
        both_wrong=pairs.count((False, False)),
    )


def _holm(tasks: Mapping[str, LevelGain]) -> dict[str, LevelGain]:
    adjusted = holm([level.mcnemar_p for level in tasks.values()]).p_values
    return {name: replace(level, mcnemar_p_holm=p) for (name, level), p in zip(tasks.items(), adjusted, strict=True)}


def _both_correctness(
    before: Sequence[ParsedReply], after: Sequence[ParsedReply]
) -> tuple[list[float], list[float]] | None:
    earlier, later = correctness(before), correctness(after)
    return (earlier, later) if earlier is not None and later is not None else None
