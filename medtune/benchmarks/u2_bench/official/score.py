"""Computes the U2-Score: the mean of each task over its data sets, and the weighted sum of these means.

The official code has an error in how it reads the ids of data sets; the score is computed with and without it.

Source:
    Formula: U2-Bench (arXiv 2505.17779), section 4.2 and Table 6. Aggregation: gurenolun/Dolphin-ai-bench,
    table_fill/update_table_score_format.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medtune.benchmarks.u2_bench.tasks_and_sets import CASES, TASKS, WEIGHTS

Ids = Literal["numbers", "text"]
_PLACES = 4
EXACT_WEIGHTS: Mapping[str, float] = {task: cases / sum(CASES.values()) for task, cases in CASES.items()}


@dataclass(frozen=True, slots=True)
class SetTables:
    """The results of one model for each data set, as in the official code's four result files.

    Attributes:
        classification: The id of the data set, the accuracy and F1.
        detection: The id and the accuracy.
        values: The id, the RMSE and the percentage within the tolerance; nan and inf are allowed.
        text: The id and BLEU-4 x 100.
    """

    classification: Sequence[tuple[str, float, float]] = ()
    detection: Sequence[tuple[str, float]] = ()
    values: Sequence[tuple[str, float, float]] = ()
    text: Sequence[tuple[str, float]] = ()

    def printed(self, *, text_places: int = _PLACES) -> SetTables:
        """Returns the results as the official scripts print them, which is what their aggregator reads.

        Args:
            text_places: The number of decimals of BLEU-4; all other values have four.

        Example:
            >>> SetTables(detection=[("13", 2 / 3)]).printed().detection
            [('13', 0.6667)]

        Source:
            `save_results` and `write_combined_results` of dolphin-sound/u2-bench-evalkit, vlmeval/eval_func, and
            gurenolun/Dolphin-ai-bench, new_results.
        """
        return SetTables(
            classification=[(name, _print(acc), _print(f1)) for name, acc, f1 in self.classification],
            detection=[(name, _print(acc)) for name, acc in self.detection],
            values=[(name, _print(rmse), _print(within)) for name, rmse, within in self.values],
            text=[(name, _print(bleu, text_places)) for name, bleu in self.text],
        )


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


def official_means(tables: SetTables, *, ids: Ids) -> TaskMeans:
    """Returns the task means of the official aggregator.

    Args:
        tables: The result tables of one model.
        ids: "numbers" reads ids as the published script does: if all ids of a result file are numeric, they become
            numbers, so that '04' and '09' are not found in LL and OD. "text" keeps ids as text, as was intended.
    """

    def mean(rows: Sequence[tuple[str, *tuple[float, ...]]], task: str, column: int) -> float:
        known = _as_read([row[0] for row in rows], ids)
        numbers = [row[1:][column] for id_, row in zip(known, rows, strict=True) if id_ in TASKS[task]]
        finite = [number for number in numbers if math.isfinite(number)]
        return math.fsum(finite) / len(finite) if finite else 0.0

    return TaskMeans(
        diag_acc=mean(tables.classification, "DD", 0),
        diag_f1=mean(tables.classification, "DD", 1),
        vra_acc=mean(tables.classification, "VRA", 0),
        vra_f1=mean(tables.classification, "VRA", 1),
        ll_acc=mean(tables.detection, "LL", 0),
        od_acc=mean(tables.detection, "OD", 0),
        kd_acc=mean(tables.detection, "KD", 0),
        cve_rmse=mean(tables.values, "CVE", 0),
        cve_tol=mean(tables.values, "CVE", 1),
        rg_bleu=mean(tables.text, "RG", 0),
        cg_bleu=mean(tables.text, "CG", 0),
        has_values=any(math.isfinite(rmse) for _, rmse, _ in tables.values),
    )


def u2_score(terms: Mapping[str, float], weights: Mapping[str, float] = WEIGHTS) -> float:
    """Returns the weighted sum of the tasks' terms, each clipped to [0, 1].

    The printed weights sum to 1. They differ from the shares of cases that the paper's formula asks for; those are in
    `EXACT_WEIGHTS`.

    Example:
        >>> round(u2_score({task: 0.5 for task in WEIGHTS}), 4)
        0.5
    """
    return math.fsum(weights[task] * min(1.0, max(0.0, term)) for task, term in terms.items())


def official_score(means: TaskMeans) -> float:
    """Returns the score as the official aggregator prints it, with four decimals."""
    return round(u2_score(means.terms), _PLACES)


def _print(value: float, places: int = _PLACES) -> float:
    return float(f"{value:.{places}f}")


def _as_read(ids: Sequence[str], how: Ids) -> list[str]:
    if how == "numbers" and all(id_.isdigit() for id_ in ids):
        return [str(int(id_)) for id_ in ids]
    return list(ids)
