"""Scores a number in a reply as VSI-Bench's present code does, for comparison in tests."""

from medtune.benchmarks.ctlesionvqa.reply_parsers import vsi_number
from medtune.benchmarks.ctlesionvqa.scoring import vsi_code


def vsi_score(reply: str, truth: str) -> float:
    """Returns the mean relative accuracy of a reply; 0 if the reply or the true answer as a whole is not a number.

    >>> vsi_score("about 11", "12.5"), vsi_score("4", "3 lesions")
    (0.8, 0.0)

    Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py (vsibench_process_results).
    """
    said = vsi_number(reply)
    try:
        right = float(truth)
    except ValueError:
        return 0.0
    return 0.0 if said is None else vsi_code(said, right)
