"""Computes how many patients it takes to see a gain in a paired comparison of questions that come in clusters.

The answer to one question changes by d = after - before, which is -1, 0 or 1. The mean of d is the gain. Its variance
depends on the share of answers that change, and the intra-patient correlation of d says how much the answers about one
patient change together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medtune.eval.statistics import Floats


@dataclass(frozen=True, slots=True)
class PowerPlan:
    baseline: float  # Accuracy before, 0 to 1.
    gain: float
    questions_per_patient: float  # Mean number of questions about one patient, at least 1.
    icc: float  # Intra-patient correlation of the change, 0 to 1.
    # Share of questions that are right in only one of the phases. None means that the two phases are independent, given
    # their accuracies, which needs more patients than phases that agree.
    discordant: float | None = None
    size_variation: float = 0.0  # Standard deviation of the number of questions per patient, divided by its mean.

    @property
    def changing(self) -> float:
        """The share of questions that are right in only one of the phases."""
        after = self.baseline + self.gain
        independent = self.baseline * (1 - after) + after * (1 - self.baseline)
        return independent if self.discordant is None else self.discordant

    @property
    def design_effect(self) -> float:
        """The variance of clustered questions divided by that of as many independent questions.

        Source: Kish 1965, "Survey Sampling"; unequal clusters: Eldridge et al. 2006, doi:10.1093/ije/dyl129.
        """
        size = (1 + self.size_variation**2) * self.questions_per_patient
        return 1 + (size - 1) * self.icc


@dataclass(frozen=True, slots=True)
class Needed:
    patients: int
    questions: int
    power: float  # The power with this number of patients, 0 to 1.
    design_effect: float


def patients_needed(plan: PowerPlan, *, power: float = 0.8, alpha: float = 0.05) -> Needed:
    """Returns the smallest number of patients with which a two-sided test at `alpha` has the wanted power.

    >>> patients_needed(PowerPlan(baseline=0.5, gain=0.2, questions_per_patient=10, icc=0.1)).patients
    20

    Source: Variance of the difference: Connor 1987, doi:10.2307/2531961; for few clusters the normal quantiles are
    those of t with one degree of freedom less than there are patients: Donner & Klar 2000, "Design and Analysis of
    Cluster Randomization Trials", chapter 5.
    """
    _check(plan, power, alpha)
    fewest, most = 2, 2
    while power_of(plan, most, alpha=alpha) < power:
        fewest, most = most, most * 2
    while fewest < most:
        middle = (fewest + most) // 2
        if power_of(plan, middle, alpha=alpha) < power:
            fewest = middle + 1
        else:
            most = middle
    reached = power_of(plan, most, alpha=alpha)
    return Needed(most, math.ceil(most * plan.questions_per_patient), reached, plan.design_effect)


def power_of(plan: PowerPlan, patients: int, *, alpha: float = 0.05) -> float:
    """Returns the power of a two-sided t test of the patients' mean changes, with 2 or more patients.

    Source: The noncentral t distribution of the test statistic: Cohen 1988, "Statistical Power Analysis", chapter 2.
    """
    from scipy.stats import nct, t

    variance = (plan.changing - plan.gain**2) * plan.design_effect / (plan.questions_per_patient * patients)
    if variance <= 0:
        return 1.0
    beyond = float(t.ppf(1 - alpha / 2, patients - 1))
    shift = abs(plan.gain) / math.sqrt(variance)
    return float(nct.sf(beyond, patients - 1, shift))


def estimated_icc(values: Sequence[float], clusters: Sequence[str]) -> float:
    """Returns the intra-cluster correlation of values by analysis of variance, at least 0; 0 if it cannot be estimated.

    >>> round(estimated_icc([1, 1, 0, 0], ["a", "a", "b", "b"]), 3)
    1.0

    Source: Donner 1986, doi:10.2307/1403259.
    """
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    sizes = np.bincount(codes).astype(np.float64)
    number, groups = len(codes), len(sizes)
    if groups < 2 or number == groups:
        return 0.0
    each = np.asarray(values, dtype=np.float64)
    means = np.bincount(codes, weights=each) / sizes
    between = float((sizes * (means - each.mean()) ** 2).sum()) / (groups - 1)
    within = float(((each - means[codes]) ** 2).sum()) / (number - groups)
    size = (number - float((sizes**2).sum()) / number) / (groups - 1)
    total = between + (size - 1) * within
    return max(0.0, (between - within) / total) if total else 0.0


def plan_from(
    before: Sequence[float] | Floats, after: Sequence[float] | Floats, clusters: Sequence[str], *, gain: float
) -> PowerPlan:
    """Returns a plan for another gain, with assumptions that are estimated from two answered phases.

    If the gain is smaller by some percentage points, the share of changed answers is smaller by as many points, and all
    other assumptions stay the same.
    """
    if not len(before) == len(after) == len(clusters) or not len(clusters):
        raise ValueError(f"wanted two scores and a cluster per question, got {len(before)}, {len(after)}")
    change = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    _, sizes = np.unique(np.asarray(clusters), return_counts=True)
    back_and_forth = float(np.mean(np.abs(change))) - abs(float(change.mean()))
    return PowerPlan(
        baseline=float(np.mean(before)),
        gain=gain,
        questions_per_patient=float(sizes.mean()),
        icc=estimated_icc(change.tolist(), clusters),
        discordant=min(1.0, back_and_forth + abs(gain)),
        size_variation=float(sizes.std() / sizes.mean()),
    )


def _check(plan: PowerPlan, power: float, alpha: float) -> None:
    for name, value in (("baseline", plan.baseline), ("baseline + gain", plan.baseline + plan.gain)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value:g}; an accuracy lies between 0 and 1")
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ValueError(f"{name} is {value:g}; it must lie between 0 and 1")
    if not 0 <= plan.icc <= 1:
        raise ValueError(f"icc is {plan.icc:g}; an intra-patient correlation lies between 0 and 1 here")
    if plan.questions_per_patient < 1:
        raise ValueError(f"questions_per_patient is {plan.questions_per_patient:g}; it must be at least 1")
    if plan.gain == 0:
        raise ValueError("gain is 0; no number of patients shows a difference that is not there")
    if plan.changing < abs(plan.gain) or plan.changing > 1:
        raise ValueError(
            f"discordant is {plan.changing:g}; it must be at least the gain ({abs(plan.gain):g}), at most 1"
        )
