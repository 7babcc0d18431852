"""Computes the mean gain of several runs that differ only in their seed, with an interval for the recipe.

The gain varies with the patients that were asked and with the seed of the run. All runs answer the same questions, so
the bootstrap draws seeds and patients with replacement, independently of each other. Because a handful of seeds says
little about how much seeds vary, the interval is widened in two ways: the deviations of the seeds from their mean are
enlarged by sqrt(S / (S - 1)), and the percentiles are taken further out, by the t quantile whose degrees of freedom
follow from both parts of the variance.

Shapes: S seeds, R resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from medtune.data.types import Interval
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.statistics.intervals import CONFIDENCE
from medtune.eval.statistics.resampling import Floats, cluster_codes

MIN_SEEDS = 2


@dataclass(frozen=True, slots=True)
class SeedsGain:
    """The gain of a recipe over several seeds.

    Attributes:
        value: The mean of the runs' gains.
        per_seed: The gain of each run.
        seed_sd: Standard deviation of the runs' gains.
        ci95: 95 % interval of the mean, from resampled seeds and patients; None if all resamples agree, because there
            is only one patient or no answer changed.
        n: Number of questions that each run answered.
        num_patients: Number of patients that the questions are about.
    """

    value: float
    per_seed: tuple[float, ...]
    seed_sd: float
    ci95: Interval | None
    n: int
    num_patients: int


def seeds_gain(
    runs: Sequence[tuple[Sequence[ParsedReply], Sequence[ParsedReply]]], metric: Metric, *, seed: int = 0
) -> SeedsGain:
    """Returns the mean gain of runs that differ only in their seed, with an interval over seeds and patients.

    Args:
        runs: The scored rows of each run, before and after, about the same questions in the same order.
        metric: The benchmark's primary metric.
        seed: Seed of the resampling.

    Raises:
        ValueError: Fewer than two runs, no questions, or runs of different questions.

    Source:
        Crossed resampling: Owen 2007, doi:10.1214/07-AOAS122; degrees of freedom: Satterthwaite 1946,
        doi:10.2307/3002019.
    """
    if len(runs) < MIN_SEEDS:
        raise ValueError(f"the spread over seeds needs at least {MIN_SEEDS} runs, got {len(runs)}")
    ids = {tuple(row.question.id for row in phase) for run in runs for phase in run}
    if len(ids) > 1:
        raise ValueError("the runs scored different questions; all seeds of a recipe have to answer the same ones")
    patients = [row.question.patient_id for row in runs[0][0]]
    codes = cluster_codes(patients)
    num_patients = len(set(patients))
    measured = [(metric.on(before), metric.on(after)) for before, after in runs]
    resamples = measured[0][0].max_resamples
    # With one seed, the same patients are drawn for every run, so that column r is one resample of patients.
    found = [[phase.resampled(codes, resamples=resamples, seed=seed) for phase in run] for run in measured]
    gains_SR = np.stack([after - before for before, after in found])
    per_seed = [after.value() - before.value() for before, after in measured]
    mean_R = gains_SR.mean(axis=0)
    enlarged_SR = mean_R + (gains_SR - mean_R) * (len(runs) / (len(runs) - 1)) ** 0.5
    drawn_RS = np.random.default_rng([seed, 1]).integers(0, len(runs), (enlarged_SR.shape[1], len(runs)))
    found_R = np.take_along_axis(enlarged_SR.T, drawn_RS, axis=1).mean(axis=1)
    seed_sd = float(np.std(per_seed, ddof=1))
    parts = (seed_sd**2 / len(runs), len(runs) - 1), (float(np.nanvar(mean_R)), max(num_patients - 1, 1))
    return SeedsGain(
        value=float(np.mean(per_seed)),
        per_seed=tuple(per_seed),
        seed_sd=seed_sd,
        ci95=_percentiles(found_R, parts),
        n=len(patients),
        num_patients=num_patients,
    )


def _percentiles(found_R: Floats, parts: tuple[tuple[float, int], ...]) -> Interval | None:
    """Returns the percentile interval, given (variance, degrees of freedom) of seeds and of patients."""
    from scipy.stats import t

    total = sum(variance for variance, _ in parts)
    spread = sum(variance**2 / freedom for variance, freedom in parts)
    freedom = total**2 / spread if spread else max(freedom for _, freedom in parts)
    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, freedom))
    outside = 1 - NormalDist().cdf(quantile)
    low, high = np.quantile(found_R[~np.isnan(found_R)], [outside, 1 - outside])
    return Interval(float(low), float(high)) if low < high else None
