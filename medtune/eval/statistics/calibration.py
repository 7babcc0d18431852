"""Compares how sure a model is with how often it is right, and says when it should not be believed.

Bins have equal width. A confidence on an edge between two bins moves the error by whole percents, so a value within
`ON_EDGE` of an edge (in bin widths) counts as being on it: 0.3 is an edge of ten bins although no float is.

A threshold of confidence, and sets of options that hold the truth, are set on questions with known answers and hold for
the questions of a new patient who is drawn like those of the calibration. The patient is the unit: each counts once,
however many questions there are about him.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from medtune.eval.statistics import Floats, Numbers

ON_EDGE = 1e-9


NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers whose confidence fell into one bin."""

    index: int  # Number of the bin from 0, which has the lowest confidences; empty bins are left out.
    n: int
    confidence: float  # Their mean confidence, 0 to 1.
    accuracy: float  # The share of right ones among them, 0 to 1.


def option_probabilities(logprobs: Sequence[float]) -> list[float]:
    """Returns each option's probability given that the answer is one of them: the softmax of the log-probabilities.

    >>> [round(share, 2) for share in option_probabilities([0.0, math.log(3)])]
    [0.25, 0.75]
    """
    highest = max(logprobs)
    weights = [math.exp(value - highest) for value in logprobs]
    total = sum(weights)
    return [weight / total for weight in weights]


def brier_score(probabilities: Sequence[float], true: int | None) -> float:
    """Returns half the sum of the squared distances of an answer's probabilities from 1 for the truth and 0 else.

    The score is 0 for a model that is sure and right, and 1 for one that is sure and wrong. For two options it is the
    squared distance of one probability, as in medical papers.

    Args:
        true: The place of the true option; None if the truth is not among them, so that its probability is 0.

    >>> round(brier_score([0.7, 0.3], 0), 2), brier_score([0.0, 1.0, 0.0], 0)
    (0.09, 1.0)

    Source: Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2; the half as in scikit-learn,
    `brier_score_loss(scale_by_half=True)`.
    """
    missed = float(true is None)
    return (sum((share - (place == true)) ** 2 for place, share in enumerate(probabilities)) + missed) / 2


def true_place(shown: Sequence[str], answer: str) -> int | None:
    """Returns the place of the true answer among the options shown; None if it is not among them."""
    return shown.index(answer) if answer in shown else None


def right_closed_bins(confidence: Sequence[float], correct: Sequence[float], *, bins: int) -> list[ReliabilityBin]:
    """Returns the bins (low, high] that hold answers; the first bin also contains 0.

    Source: Guo et al. 2017, arXiv:1706.04599, section 3.
    """
    at = _scaled(confidence, bins)
    return _reliability(np.maximum(np.ceil(at) - 1, 0).astype(np.intp), confidence, correct)


def expected_calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """Returns the mean gap between confidence and accuracy of the bins, weighted by answers; 0 without answers.

    Source: Naeini et al. 2015, doi:10.1609/aaai.v29i1.9602.
    """
    total = sum(each.n for each in bins)
    return sum(each.n * abs(each.confidence - each.accuracy) for each in bins) / total if total else 0.0


def _scaled(confidence: Sequence[float], bins: int) -> Floats:
    if bins < 1:
        raise ValueError(f"wanted at least one bin, got {bins}")
    at = np.asarray(confidence, dtype=np.float64) * bins
    edge = np.round(at)
    snapped: Floats = np.where(np.abs(at - edge) < ON_EDGE, edge, at)
    return snapped


def _reliability(indices: Numbers, confidence: Sequence[float], correct: Sequence[float]) -> list[ReliabilityBin]:
    said, right = _checked(confidence, correct)
    counts = np.bincount(indices)
    said_sums, right_sums = np.bincount(indices, weights=said), np.bincount(indices, weights=right)
    return [
        ReliabilityBin(int(index), int(counts[index]), float(said_sums[index] / counts[index]), float(share))
        for index, share in ((index, right_sums[index] / counts[index]) for index in np.flatnonzero(counts))
    ]


def _checked(confidence: Sequence[float], correct: Sequence[float]) -> tuple[Floats, Floats]:
    said, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if said.shape != right.shape:
        raise ValueError(f"wanted one outcome per confidence, got {right.size} for {said.size}")
    if not (np.all((said >= 0) & (said <= 1)) and np.all((right >= 0) & (right <= 1))):
        raise ValueError("wanted confidences and outcomes within [0, 1], got others")
    return said, right


class Threshold(NamedTuple):
    """The confidence from which on a model answers, and what that gave on the questions that set it."""

    confidence: float  # The least confidence of an answer, 0 to 1.
    answered: float  # The share of the questions that were answered, 0 to 1.
    wrong: float  # The share of wrong ones among the answered questions, 0 to 1; 0 where none was answered.


def patients_needed(rate: float) -> int:
    """Returns the number of patients below which no threshold and no set can hold an error rate.

    >>> patients_needed(0.05)
    19
    """
    return math.ceil(1 / rate - 1e-9) - 1


def answering_threshold(
    confidence: Sequence[float], is_wrong: Sequence[bool], patients: Sequence[str], *, rate: float
) -> Threshold | None:
    """Returns the lowest threshold by which at most a share of all questions is answered wrongly; None if none holds.

    The expected share of a new patient's questions that the model answers, and answers wrongly, is at most `rate`. The
    questions below the threshold are left to a person.

    Args:
        confidence: The probability of the chosen option, for each question.

    Source: Conformal risk control, Angelopoulos et al. 2022, arXiv:2208.02814, theorem 1; its loss is a patient's share
    of questions that are answered wrongly.
    """
    each = Counter(patients)
    allowed = rate * (len(each) + 1) - 1
    if allowed < 0:
        return None
    lost, found = 0.0, math.inf
    order = sorted(range(len(confidence)), key=lambda place: -confidence[place])
    for rank, place in enumerate(order):
        lost += is_wrong[place] / each[patients[place]]
        if lost > allowed + 1e-12:
            break
        is_last_of_equals = rank + 1 == len(order) or confidence[order[rank + 1]] < confidence[place]
        found = confidence[place] if is_last_of_equals else found
    taken = [place for place in order if confidence[place] >= found]
    wrong = sum(is_wrong[place] for place in taken) / len(taken) if taken else 0.0
    return Threshold(found, len(taken) / len(order) if order else 0.0, wrong)


def least_probability(true_share: Sequence[float], patients: Sequence[str], *, coverage: float) -> float:
    """Returns the probability from which on an option is in the set that holds the truth with a stated frequency.

    It is 0, so that the set holds all options, where there are too few patients.

    Source: Conformal prediction with several observations a unit: Lee, Barber and Willett 2023, arXiv:2306.06342,
    section 3; Dunn, Wasserman and Ramdas 2022, doi:10.1080/01621459.2022.2060112.
    """
    each = Counter(patients)
    held = 0.0
    for share, patient in sorted(zip(true_share, patients, strict=True), reverse=True):
        held += 1 / each[patient] / (len(each) + 1)
        if held >= coverage - 1e-12:
            return share
    return 0.0
