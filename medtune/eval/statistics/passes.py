"""Averages a statistic over passes, in which a model answered the same questions several times.

Each pass is scored as a whole, so that a metric which is no mean over questions, such as macro F1, is the mean of what
a single pass would give. An interval of this mean needs nothing more than one of a single pass: a patient that is left
out goes with all its replies, and the mean over its passes varies by the patient and by the noise of the replies.

Source: Davison & Hinkley 1997, "Bootstrap Methods and their Application", section 3.8: of nested samples, the outer
units are resampled with replacement and the inner ones are kept, which has the right variance up to a factor of
1 - 1 / clusters. It holds where the replies of a pass are drawn independently for each patient, as seeds of sampling
are in medtune.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from medtune.eval.statistics.clusters import Floats
from medtune.eval.statistics.column_sums import Sums
from medtune.eval.statistics.statistic import Recomputed, Statistic


def mean_over_passes(passes: Sequence[Statistic]) -> Statistic:
    """Returns the statistic whose value is the mean over passes, on every part of the questions.

    Args:
        passes: The statistic of each pass, at least one, about the same questions in the same order.

    Example:
        >>> from medtune.eval.statistics.column_sums import mean_of
        >>> mean_over_passes([mean_of([1.0, 0.0]), mean_of([1.0, 1.0])]).value()
        0.75
    """
    if len(passes) == 1:
        return passes[0]
    sums = [each for each in passes if isinstance(each, Sums)]
    if len(sums) == len(passes):
        return _side_by_side(sums)
    recomputed = [each for each in passes if isinstance(each, Recomputed)]
    if len(recomputed) < len(passes):
        raise TypeError("a mean over passes wants statistics that are all column sums, or all recomputed")
    return Recomputed(
        lambda numbers: float(np.mean([each.function(numbers) for each in recomputed])), recomputed[0].num_rows
    )


def sd_of_passes(values: Sequence[float]) -> float | None:
    """Returns the standard deviation of the values of several passes; None for one pass, or if a value is not finite.

    Example:
        >>> round(sd_of_passes([0.5, 0.5, 0.8]), 6), sd_of_passes([0.5])
        (0.173205, None)
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return statistics.stdev(values)


def _side_by_side(passes: Sequence[Sums]) -> Sums:
    starts = np.cumsum([0, *(each.width for each in passes)])

    def finish(sums: Floats) -> Floats:
        blocks = [sums[..., low:high] for low, high in pairwise(starts)]
        mean: Floats = np.mean([each.finish(block) for each, block in zip(passes, blocks, strict=True)], axis=0)
        return mean

    return Sums(
        rows=np.concatenate([each.rows for each in passes]),
        columns=np.concatenate([each.columns + start for each, start in zip(passes, starts[:-1], strict=True)]),
        values=np.concatenate([each.values for each in passes]),
        num_rows=passes[0].num_rows,
        width=int(starts[-1]),
        finish=finish,
    )
