"""Says when a model should not be believed: a threshold of confidence, and sets of options that hold the truth.

Both are set on questions with known answers and hold for the questions of a new patient who is drawn like those of the
calibration. The patient is the unit: each counts once, however many questions there are about him.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


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
