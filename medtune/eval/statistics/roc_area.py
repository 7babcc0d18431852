"""Computes the area under the ROC curve of one class against the rest, with an interval over patients."""

from collections.abc import Sequence

import numpy as np

from medtune.data.types import Interval
from medtune.eval.statistics.clusters import Floats
from medtune.eval.statistics.column_sums import Sums
from medtune.eval.statistics.intervals import statistic_interval
from medtune.eval.statistics.score_limits import wilson

FEW_PATIENTS = 5
"""With fewer patients on one side of the curve, leaving one out tells too little about how much the area varies."""

MAX_LEVELS = 256
"""The largest number of different scores in an interval. More are joined into quantiles, which changes the area of
10,000 simulated scores by less than 0.0001."""


def roc_area(scores: Sequence[float] | Floats, is_true: Sequence[bool]) -> Sums:
    """Returns the sums whose statistic is the area under the ROC curve; it is NaN if only one of both sides occurs.

    The area is the probability that a question of the class has a higher score than another question; equal scores
    count one half.

    Args:
        scores: For each question the score of the class, for instance its probability.
        is_true: For each question whether the class is the true answer.

    Example:
        >>> roc_area([0.9, 0.4, 0.4, 0.1], [True, True, False, False]).value()
        0.875

    Source:
        Hanley & McNeil 1982, doi:10.1148/radiology.143.1.7063747; scikit-learn, `roc_auc_score`.
    """
    levels, places = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    number = len(levels)

    def finish(sums: Floats) -> Floats:
        true, other = sums[..., :number], sums[..., number:]
        below = np.cumsum(other, axis=-1) - other / 2
        pairs = true.sum(axis=-1) * other.sum(axis=-1)
        won = (true * below).sum(axis=-1)
        area: Floats = np.divide(won, pairs, out=np.full_like(won, np.nan), where=pairs > 0)
        return area

    return Sums(
        rows=np.arange(len(places)),
        columns=places + number * ~np.asarray(is_true, dtype=np.bool_),
        values=np.ones(len(places)),
        num_rows=len(places),
        width=2 * number,
        finish=finish,
    )


def roc_area_interval(scores: Sequence[float], is_true: Sequence[bool], patients: Sequence[str]) -> Interval:
    """Returns the 95 % interval of the area under the ROC curve, with patients as clusters.

    If fewer than `FEW_PATIENTS` patients are on one of the two sides, the interval is Wilson's with n = number of
    patients on the smaller side.

    Args:
        scores: For each question the score of the class.
        is_true: For each question whether the class is the true answer; both sides occur.
        patients: The patient of each question.
    """
    sides = ({p for p, true in zip(patients, is_true, strict=True) if true is side} for side in (True, False))
    fewest = min(map(len, sides))
    if fewest < FEW_PATIENTS:
        return wilson(roc_area(scores, is_true).value() * fewest, fewest)
    statistic = roc_area(_joined(np.asarray(scores, dtype=np.float64)), is_true)
    return statistic_interval(statistic, patients, right=None)


def _joined(scores: Floats) -> Floats:
    if len(np.unique(scores)) <= MAX_LEVELS:
        return scores
    edges = np.quantile(scores, np.linspace(0, 1, MAX_LEVELS + 1)[1:-1])
    return np.searchsorted(np.unique(edges), scores).astype(np.float64)
