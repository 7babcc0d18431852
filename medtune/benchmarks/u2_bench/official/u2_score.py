"""Computes the U2-Score: the mean of each task over its data sets, and the weighted sum of these means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from medtune.benchmarks.u2_bench.tasks_and_sets import WEIGHTS


@dataclass(frozen=True, slots=True)
class TaskMeans:
    """The means of the tasks by the official aggregator.

    A task without results has the mean 0. This also holds for the RMSE of values, for which 0 is the best result.
    """

    diag_acc: float
    diag_f1: float
    vra_acc: float
    vra_f1: float
    ll_acc: float
    od_acc: float
    kd_acc: float
    cve_rmse: float
    cve_tol: float
    rg_bleu: float
    cg_bleu: float
    has_values: bool

    @property
    def terms(self) -> dict[str, float]:
        """The term of each task in the score before clipping: an accuracy, 1 - RMSE for values, BLEU-4 for texts."""
        return {
            "DD": self.diag_acc,
            "VRA": self.vra_acc,
            "LL": self.ll_acc,
            "OD": self.od_acc,
            "KD": self.kd_acc,
            "CVE": 1 - self.cve_rmse,
            "RG": self.rg_bleu / 100,
            "CG": self.cg_bleu / 100,
        }

    @property
    def earned_terms(self) -> dict[str, float]:
        """The same as `terms`, but the term of values is 0, not 1, if there are no results for values."""
        return self.terms if self.has_values else {**self.terms, "CVE": 0.0}


def u2_score(terms: Mapping[str, float], weights: Mapping[str, float] = WEIGHTS) -> float:
    """Returns the weighted sum of the tasks' terms, each clipped to [0, 1].

    The printed weights sum to 1. They differ from the shares of cases that the paper's formula asks for; those are in
    `tasks_and_sets.EXACT_WEIGHTS`.

    >>> round(u2_score({task: 0.5 for task in WEIGHTS}), 4)
    0.5
    """
    return math.fsum(weights[task] * min(1.0, max(0.0, term)) for task, term in terms.items())
