"""Intervals, significance tests, calibration and power for answers that come in clusters, such as patients.

Clusters are numbered in order of appearance, so that other names for the same patients give the same intervals.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SEED = 0

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
Clusters = Sequence[str] | Numbers
"""The cluster of each question, by its name or by any number."""


def cluster_codes(clusters: Clusters, *columns: Sequence[float] | Floats | None) -> Numbers:
    """Returns each question's cluster as a number from 0 in order of appearance; checks that columns lie in [0, 1]."""
    if not len(clusters):
        raise ValueError("an interval needs at least one question, got none")
    for column in columns:
        if column is None:
            continue
        if len(column) != len(clusters):
            raise ValueError(f"wanted one value per question, got {len(column)} values for {len(clusters)} clusters")
        if not np.all((np.asarray(column) >= 0) & (np.asarray(column) <= 1)):
            raise ValueError("wanted values within [0, 1] (1 right, 0 wrong), got others")
    if not isinstance(clusters, np.ndarray):
        order: dict[str, int] = {}
        return np.array([order.setdefault(cluster, len(order)) for cluster in clusters], dtype=np.intp)
    first = np.full(int(clusters.max()) + 1, clusters.size)
    np.minimum.at(first, clusters, np.arange(clusters.size))
    place = np.empty_like(first)
    place[np.argsort(first, kind="stable")] = np.arange(first.size)
    return place[clusters]


def check_codes(codes: Numbers, num_rows: int) -> None:
    """Checks that there is one cluster code for each row of a statistic."""
    if num_rows != codes.size:
        raise ValueError(f"wanted one row of the statistic per question, got {num_rows} for {codes.size} questions")


def num_clusters(codes: Numbers) -> int:
    return int(codes.max()) + 1


def merged(codes: Numbers, at_most: int) -> Numbers:
    """Returns codes of at most so many clusters, for which every `at_most`-th cluster is merged into one.

    >>> merged(np.array([0, 1, 2, 2, 3]), 2).tolist()
    [0, 1, 0, 0, 1]
    """
    return codes % at_most if num_clusters(codes) > at_most else codes


def some_rows(number: int, at_most: int) -> Numbers:
    """Returns the numbers of all rows, or of `at_most` of them, drawn without replacement and always the same."""
    if number <= at_most:
        return np.arange(number)
    return np.sort(np.random.default_rng(_SEED).choice(number, at_most, replace=False))
