"""Mean relative accuracy of a number, by each of the four definitions that share the name.

"paper" is the default. The paper cites VSI-Bench's formula, whose comparison is strict. The paper's own code was never
published, so the rule for a true answer of 0 (only exactly 0 is right) is that of version 2.
"""

import math
from collections.abc import Callable
from fractions import Fraction

Mra = Callable[[float, float], float | None]

_THRESHOLDS = 10
# 1 - .50, 1 - .55, ..., 1 - .95 are 10/20, 9/20, ..., 1/20. An error e passes a threshold if 20 e is less than the
# numerator.
_STEPS = 20
_NEAR = 1e-6


def strict(prediction: float, truth: float) -> float | None:
    """Returns the share of the thresholds .50, .55, ..., .95 with |p - y| / |y| < 1 - threshold.

    Both numbers are taken as the decimals that are printed, so 1.05 differs from 1 by exactly 5 %.

    Args:
        prediction: The number in the answer; a number that is not finite scores 0.
        truth: The true number. The formula is undefined for 0, for which None is returned.

    Example:
        >>> strict(1.05, 1), strict(1.2, 1), strict(-55, -50), strict(1, 0)
        (0.9, 0.6, 0.8, None)

    Source:
        VSI-Bench (arXiv 2412.14171), section 3.1, equation of MRA, which CTLesionVQA section 3.1 cites.
    """
    error = _steps_of_error(prediction, truth)
    return None if error is None else max(0, _THRESHOLDS - math.floor(error)) / _THRESHOLDS


def inclusive(prediction: float, truth: float) -> float | None:
    """Returns the share of thresholds as in `strict`, but with <= in place of <; None for a truth of 0.

    Example:
        >>> inclusive(1.05, 1), inclusive(1.2, 1)
        (1.0, 0.7)

    Source:
        EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py, its comparison in exact arithmetic.
    """
    error = _steps_of_error(prediction, truth)
    return None if error is None else max(0, _THRESHOLDS + 1 - max(1, math.ceil(error))) / _THRESHOLDS


def vsi_code(prediction: float, truth: float) -> float:
    """Returns the score that VSI-Bench's code computes, which compares with <= in floating-point numbers.

    The code divides by the truth with its sign, so a negative truth gives 1 for every prediction.

    Raises:
        ZeroDivisionError: The truth is 0, as in the original.

    Example:
        >>> vsi_code(1.35, 1), vsi_code(100.0, -50)
        (0.3, 1.0)

    Source:
        EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py (mean_relative_accuracy); its
        `np.linspace(.5, .95, int(10.99...))` has 10 points.
    """
    import numpy as np

    error = abs(prediction - truth) / truth
    return float(np.mean(error <= 1 - np.linspace(0.5, 0.95, _THRESHOLDS)))


def v2_code(prediction: float, truth: float) -> float:
    """Returns max(0, 1 - |p - y| / |y|), without thresholds; for a truth of 0, it is 1 if the prediction is 0, else 0.

    Example:
        >>> v2_code(1.25, 1), v2_code(0, 0), v2_code(1, 0)
        (0.75, 1.0, 0.0)

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (_mra).
    """
    if truth == 0:
        return float(prediction == 0)
    error = abs(prediction - truth) / abs(truth)
    return max(0.0, 1.0 - error) if math.isfinite(error) else 0.0


def zero_only_for_zero(mra: Mra) -> Callable[[float, float], float]:
    """Returns the definition `mra` extended by version 2's rule for a truth of 0: 1 for exactly 0, else 0."""

    def ruled(prediction: float, truth: float) -> float:
        if truth == 0:
            return float(prediction == 0)
        found = mra(prediction, truth)
        return 0.0 if found is None else found

    return ruled


paper = zero_only_for_zero(strict)
paper_inclusive = zero_only_for_zero(inclusive)


def _steps_of_error(prediction: float, truth: float) -> Fraction | float | None:
    if truth == 0:
        return None
    steps = _STEPS * (abs(prediction - truth) / abs(truth))
    if not steps < _THRESHOLDS + 1:
        return _THRESHOLDS + 1
    if abs(steps - round(steps)) > _NEAR:
        return steps
    exact = Fraction(str(truth))
    return _STEPS * abs(Fraction(str(prediction)) - exact) / abs(exact)
