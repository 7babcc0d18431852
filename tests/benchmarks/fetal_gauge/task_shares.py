"""Infers from Fetal-Gauge's printed numbers how many of its questions each task can have, which is not published."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

ROUNDING = 0.005


class Bounds(NamedTuple):
    """The smallest and the largest possible share of the test questions."""

    low: float
    high: float


def task_share_bounds(accuracies: Sequence[Sequence[float]], overall: Sequence[float]) -> list[Bounds]:
    """Returns the smallest and the largest possible share of the test questions for each task."""
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


def num_options(guessing: float) -> int:
    """Returns the number of options whose chance is nearest to the printed accuracy of random guesses."""
    return min(range(2, 100), key=lambda number: abs(1 / number - guessing))


def macro_mean(accuracies: Sequence[float]) -> float:
    """Returns the mean of the tasks' accuracies, in which each task has the same weight."""
    return sum(accuracies) / len(accuracies)


def weighted_mean(accuracies: Sequence[float], questions: Sequence[int]) -> float:
    """Returns the accuracy over all questions, from the accuracy and the number of questions of each group."""
    return sum(a * n for a, n in zip(accuracies, questions, strict=True)) / sum(questions)


def agree(first: float, second: float) -> bool:
    """Returns whether two values can be equal if both come from numbers that were rounded to two decimals."""
    return abs(first - second) <= 2 * ROUNDING + 1e-9
