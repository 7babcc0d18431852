"""Simulates answers about patients whose true accuracy and gain are known, for tests of coverage.

Patients have their own skill, from a beta distribution with a given correlation within patients, and their own number
of questions, from a gamma distribution with a given coefficient of variation. Both are drawn independently, so that the
share of right answers in the population is the mean skill.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv

from medtune.eval.statistics import Floats, Numbers

MEAN_QUESTIONS = 6
_RANKS = (np.arange(4000) + 0.5) / 4000


@dataclass(frozen=True)
class Setting:
    """One place of the grid."""

    patients: int  # Number of patients.
    size_cv: float  # Standard deviation of the number of questions about a patient, divided by its mean.
    icc: float  # Correlation of right answers within a patient.
    before: float  # Accuracy before.
    after: float = 0.5  # Accuracy after.
    kept: float = 0.5  # Share of the patients whose rank of skill is the same in both phases.
    # Expected number of patients with another answer after than before; None if both phases answer anew.
    changed: float | None = None


@dataclass(frozen=True)
class Answers:
    """Simulated answers of two phases: the patient of each question, and 1 for right or 0 for wrong."""

    patients: list[str]
    before: list[float]
    after: list[float]


def simulated(rng: np.random.Generator, setting: Setting) -> Answers:
    """Returns the answers of one data set."""
    sizes = patient_sizes(rng, setting)
    codes = np.repeat(np.arange(setting.patients), sizes)
    rank = rng.random(setting.patients)
    before = rng.random(codes.size) < skill(rank, setting.before, setting.icc)[codes]
    if setting.changed is None:
        other = np.where(rng.random(setting.patients) < setting.kept, rank, rng.random(setting.patients))
        after = rng.random(codes.size) < skill(other, setting.after, setting.icc)[codes]
    else:
        is_changed = (rng.random(setting.patients) < setting.changed / setting.patients)[codes]
        to_right = (rng.random(setting.patients) < setting.after)[codes]
        after = np.where(is_changed, to_right, before)
    return Answers([str(code) for code in codes], before.astype(float).tolist(), after.astype(float).tolist())


def true_gain(setting: Setting) -> float:
    """Returns the mean gain of a question in the population.

    If few patients change, all answers about such a patient become right with probability `after`, else wrong.
    """
    if setting.changed is None:
        return setting.after - setting.before
    return setting.changed / setting.patients * (setting.after - setting.before)


def telling_patients(values: list[float], patients: list[str]) -> float:
    """Returns the effective number of patients behind the variance: (sum of squares)^2 / sum of fourth powers.

    It counts the patients' deviations from the mean, so that it is small where one answer in a hundred is wrong.
    """
    codes = np.array(patients, dtype=np.intp)
    deviations = np.bincount(codes, weights=np.asarray(values) - np.mean(values))
    fourth = float(np.sum(deviations**4))
    return float(np.sum(deviations**2)) ** 2 / fourth if fourth > 0 else 0.0


def patient_sizes(rng: np.random.Generator, setting: Setting) -> Numbers:
    if setting.size_cv == 0:
        return np.full(setting.patients, MEAN_QUESTIONS)
    shape = setting.size_cv**-2
    drawn = rng.gamma(shape, MEAN_QUESTIONS / shape, setting.patients)
    return np.maximum(1, np.rint(drawn)).astype(np.intp)


def skill(rank: Floats, accuracy: float, icc: float) -> Floats:
    """Returns the skills at ranks of 0 to 1 among all patients."""
    return np.full(rank.size, accuracy) if icc == 0 else np.interp(rank, _RANKS, _skills(accuracy, icc))


@cache
def _skills(accuracy: float, icc: float) -> Floats:
    scale = (1 - icc) / icc
    skills: Floats = betaincinv(accuracy * scale, (1 - accuracy) * scale, _RANKS)
    return skills
