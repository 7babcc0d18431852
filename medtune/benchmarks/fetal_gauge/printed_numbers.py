"""Compares Fetal-Gauge's printed numbers with one another, to find how its overall score is averaged.

Source: arXiv 2512.22278, main results and box sizes. The values are printed with two decimals, so each of them may
differ from the exact value by 0.005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TASKS: Mapping[str, str] = {
    "PI": "plane_identification",
    "VC": "view_completeness",
    "FO": "fetal_orientation",
    "CD": "clinical_diagnosis",
    "VG": "visual_grounding",
}
ROUNDING = 0.005


def macro_mean(accuracies: Sequence[float]) -> float:
    """Returns the mean of the tasks' accuracies, in which each task has the same weight.

    The printed overall accuracy is not this mean but `weighted_mean`.
    """
    return sum(accuracies) / len(accuracies)


def weighted_mean(accuracies: Sequence[float], questions: Sequence[int]) -> float:
    """Returns the accuracy over all questions, from the accuracy and the number of questions of each group.

    Example:
        >>> weighted_mean([1.0, 0.5], [1, 3])
        0.625
    """
    return sum(a * n for a, n in zip(accuracies, questions, strict=True)) / sum(questions)


def agree(first: float, second: float) -> bool:
    """Returns whether two values can be equal if both come from numbers that were rounded to two decimals."""
    return abs(first - second) <= 2 * ROUNDING + 1e-9
