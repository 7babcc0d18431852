"""What Fetal-Gauge's printed numbers imply: how the overall score is averaged, and how large each task is.

Source: arXiv 2512.22278, main results and box sizes. Every printed value has two digits, so it may be off by 0.005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

TASKS: Mapping[str, str] = {
    "PI": "plane_identification",
    "VC": "view_completeness",
    "FO": "fetal_orientation",
    "CD": "clinical_diagnosis",
    "VG": "visual_grounding",
}
ROUNDING = 0.005
# Inferred from the row of random guesses, not published.
OPTION_COUNTS: Mapping[str, int] = {"PI": 4, "VC": 2, "FO": 4, "CD": 3, "VG": 4}


class Bounds(NamedTuple):
    """Smallest and largest possible share."""

    low: float
    high: float


def macro_mean(accuracies: Sequence[float]) -> float:
    """Returns the mean of the tasks' accuracies, each task counting the same: what the printed overall is *not*."""
    return sum(accuracies) / len(accuracies)


def weighted_mean(accuracies: Sequence[float], questions: Sequence[int]) -> float:
    """Returns the mean over questions of accuracies that are known by group.

    Example:
        >>> weighted_mean([1.0, 0.5], [1, 3])
        0.625
    """
    return sum(a * n for a, n in zip(accuracies, questions, strict=True)) / sum(questions)


def agree(first: float, second: float) -> bool:
    """Returns whether two values can be equal, where both come from numbers that were rounded to two digits."""
    return abs(first - second) <= 2 * ROUNDING + 1e-9


def task_share_bounds(accuracies: Sequence[Sequence[float]], overall: Sequence[float]) -> list[Bounds]:
    """Returns how small and how large each task's share of the test questions can be.

    Args:
        accuracies: Of each model, one per task.
        overall: Of each model: the mean over all its questions.

    Raises:
        ValueError: No shares explain the numbers: overall is not a mean over questions.
    """
    from scipy.optimize import linprog

    table, means = np.asarray(accuracies), np.asarray(overall)
    limits = np.concatenate([table, -table]), np.concatenate([means, -means]) + 2 * ROUNDING
    num_tasks = table.shape[1]
    found = []
    for task in range(num_tasks):
        ends = []
        for sign in (1, -1):
            goal = np.zeros(num_tasks)
            goal[task] = sign
            solved = linprog(goal, A_ub=limits[0], b_ub=limits[1], A_eq=np.ones((1, num_tasks)), b_eq=[1.0])
            if not solved.success:
                raise ValueError("no shares of the tasks give these overall scores, rounding allowed for")
            ends.append(sign * float(solved.fun))
        found.append(Bounds(*ends))
    return found
