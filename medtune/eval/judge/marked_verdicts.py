"""Puts verdicts into predictions: the judge's reply, after a mark, replaces the reply that it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from medtune.data.types import Prediction, PredictionKey

JUDGE_MARK = "<|judge|>"
"""The mark at the start of every text that is a judge's verdict. No model writes it by chance."""


def marked_verdicts(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    """Returns the predictions with the judge's reply in place of the text of each one that was judged.

    Args:
        predictions: The predictions as the model gave them.
        judge_replies: The judge's unparsed replies by the key of the prediction that they are about.
    """
    return [
        replace(each, text=JUDGE_MARK + judge_replies[each.key]) if each.key in judge_replies else each
        for each in predictions
    ]
