"""Draws whole clusters with replacement: the resamples that every interval is taken from.

Clusters are numbered in order of appearance, so that other names for the same patients give the same intervals. The
same seed draws the same clusters for every statistic, however the statistic is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
RESAMPLES_RECOMPUTED = 1_000
NUMBERS_AT_ONCE = 2_000_000
_KEPT_DRAWS = 4

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


def cluster_codes(clusters: Sequence[str], *columns: Sequence[float] | None) -> Numbers:
    """Returns for each question the number of its cluster, counted from 0 in order of appearance.

    Args:
        clusters: Patient of each question.
        columns: Lists of one value per question, which are checked to lie within [0, 1]; None is skipped.

    Raises:
        ValueError: There are no questions, lengths differ, or a value is outside [0, 1].
    """
    if not clusters:
        raise ValueError("an interval needs at least one question, got none")
    for column in columns:
        if column is None:
            continue
        if len(column) != len(clusters):
            raise ValueError(f"wanted one value per question, got {len(column)} values for {len(clusters)} clusters")
        if not np.all((np.asarray(column) >= 0) & (np.asarray(column) <= 1)):
            raise ValueError("wanted values within [0, 1] (1 right, 0 wrong), got others")
    order: dict[str, int] = {}
    return np.array([order.setdefault(cluster, len(order)) for cluster in clusters], dtype=np.intp)


def check_codes(codes: Numbers, num_rows: int) -> None:
    """Checks that there is one cluster code for each row of a statistic.

    Raises:
        ValueError: The numbers of codes and rows differ.
    """
    if num_rows != codes.size:
        raise ValueError(f"wanted one row of the statistic per question, got {num_rows} for {codes.size} questions")


def num_clusters(codes: Numbers) -> int:
    """Returns the number of clusters in the codes."""
    return int(codes.max()) + 1


def drawn_clusters(number: int, resamples: int, seed: int) -> Iterator[Numbers]:
    """Yields drawn cluster numbers of shape (some resamples, clusters); a single cluster has one resample, itself."""
    if number == 1:
        yield np.zeros((1, 1), dtype=np.intp)
        return
    rng = np.random.default_rng(seed)
    at_once = max(1, NUMBERS_AT_ONCE // number)
    for start in range(0, resamples, at_once):
        yield rng.integers(0, number, (min(at_once, resamples - start), number))


@lru_cache(maxsize=_KEPT_DRAWS)
def times_drawn(number: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """Returns how often each resample contains each cluster, as a table of shape (resamples, clusters).

    The last few tables are kept in memory, because most levels and metrics of a phase use the same draws.
    """
    found = []
    for drawn in drawn_clusters(number, resamples, seed):
        places = drawn + number * np.arange(len(drawn))[:, None]
        times = np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape)
        found.append(times.astype(np.uint16))
    return np.concatenate(found)
