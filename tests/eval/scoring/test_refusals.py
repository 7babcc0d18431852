"""Tests that refusals are told from answers, and counted by their kind."""

import pytest

from medtune.data.types import Prediction, PredictionKey, Reading
from medtune.eval.scoring.parse_replies import Refusals, count_refusals, is_refusal


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I can’t provide a medical diagnosis.",
        "Sorry, I cannot assist with interpreting this image.",
        "I am unable to provide a diagnosis from this ultrasound.",
        "As an AI language model, I cannot diagnose conditions.",
        "Unfortunately, I'm not able to analyze medical images.",
        "I cannot definitively identify the structure.",
        "I won't answer that.",
    ],
)
def test_refusals_in_words(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B",
        "Answer: B. I cannot help but notice the shadow.",
        "The image cannot be used to provide gestational age; C",
        "I can identify the femur: A",
        "I cannot see calipers, so the plane is incomplete: B",
        "Sorry if this is short: A",
        "malignant",
    ],
)
def test_answers_are_none(text: str) -> None:
    assert not is_refusal(text)


def _said(number: int, text: str | None, finish: str | None) -> Prediction:
    reading: Reading = "generation" if text is not None else "likelihood"
    logprobs = None if text is not None else (0.0,)
    return Prediction(
        PredictionKey(f"q{number}", "image", reading, 0), text=text, option_logprobs=logprobs, finish_reason=finish
    )


def test_each_refusal_counts_once() -> None:
    said = [
        _said(0, "", "content_filter"),
        _said(1, "I can't help with that.", "refusal"),
        _said(2, "I can't help with that.", "stop"),
        _said(3, "A", "stop"),
        _said(4, None, None),
    ]
    assert count_refusals(said) == Refusals(n=4, filtered=1, refused=1, in_words=1)
    assert count_refusals(said).total == 3
