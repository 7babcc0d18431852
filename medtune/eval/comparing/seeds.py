"""Computes the mean gain of several runs that differ only in their seed, with an interval for the recipe.

The gain varies with the patients that were asked and with the seed of the run. All runs answer the same questions, so
that its variance has two parts: that of the mean over the runs, by patients, and that of the runs' gains, by seeds. The
interval is that of a gain with the sum of both. Because a handful of seeds says little about how much seeds vary, its t
quantile is the mean of those of patients and of seeds, weighted by their variances. Chance in the answers counts in
both parts, which makes the interval too wide rather than too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medtune.data.types import Interval
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.score import correctness
from medtune.eval.statistics.clusters import Floats, cluster_codes
from medtune.eval.statistics.intervals import METHOD, SecondPart, gain_limits
from medtune.eval.statistics.spread import Term, spread

MIN_SEEDS = 2
SEEDS_METHOD = f"{METHOD}; over seeds and patients by Cochran's t"


@dataclass(frozen=True, slots=True)
class SeedsGain:
    """The gain of a recipe over several seeds.

    Attributes:
        value: The mean of the runs' gains.
        per_seed: The gain of each run.
        seed_sd: Standard deviation of the runs' gains.
        ci95: 95 % interval of the mean over seeds and patients (`SEEDS_METHOD`); None if the metric has no limit and
            there is only one patient or no answer changed.
        n: Number of questions that each run answered.
        num_patients: Number of patients that the questions are about.
    """

    value: float
    per_seed: tuple[float, ...]
    seed_sd: float
    ci95: Interval | None
    n: int
    num_patients: int


def seeds_gain(runs: Sequence[tuple[Sequence[ParsedReply], Sequence[ParsedReply]]], metric: Metric) -> SeedsGain:
    """Returns the mean gain of runs that differ only in their seed, with an interval over seeds and patients.

    Args:
        runs: The scored rows of each run, before and after, about the same questions in the same order.
        metric: The benchmark's primary metric.

    Source:
        Two crossed sources of variance, their sum as a safe estimate: Owen 2007, doi:10.1214/07-AOAS122.
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
    )
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
