"""Verdicts inside predictions: a judge's reply takes the place of the reply that it is about, behind a mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from medtune.data.types import Prediction, PredictionKey

JUDGE_MARK = "<|judge|>"
"""Opens every text that is a judge's verdict; no model says it by chance."""


def marked_verdicts(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    """Returns the predictions with the judge's reply in place of the text of each one that was judged.

    Args:
        predictions: The predictions as the model gave them.
        judge_replies: The judge's unparsed reply about the prediction of that key.
    """
    return [
        replace(each, text=JUDGE_MARK + judge_replies[each.key]) if each.key in judge_replies else each
        for each in predictions
    ]
