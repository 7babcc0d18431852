"""Tests that refusals are told from answers, and counted by their kind."""

import pytest

from medtune.data.types import Condition, Prediction, PredictionKey, Reading
from medtune.eval.scoring.reply_ends import Cut, Refusals, count_cut, count_refusals, cut_text, is_refusal


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
        "", "B", "Answer: B. I cannot help but notice the shadow.",
        "The image cannot be used to provide gestational age; C", "I can identify the femur: A",
        "I cannot see calipers, so the plane is incomplete: B", "Sorry if this is short: A", "malignant",
    ],
)  # fmt: skip
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


def test_replies_that_were_cut_are_counted_by_condition_and_by_their_thoughts() -> None:
    def said(number: int, text: str, end: str | None, condition: Condition = "image") -> Prediction:
        return Prediction(PredictionKey(str(number), condition, "generation", 0), text=text, finish_reason=end)

    texts = ["<think>\nIs it B", "[THINK]A?", "<think>B?</think> the lesion", "It is", "", "A? No</think>"]
    found = count_cut(
        [
            *(said(number, text, "length") for number, text in enumerate(texts)),
            said(8, "<think>B?</think> B", "stop"),
            said(9, "B", "stop", "text_only"),
            said(9, "B", None, "other_image"),
        ]
    )
    assert found == {"image": Cut(7, 6, 3), "text_only": Cut(1, 0, 0)}
    wanted = "Replies that were cut at eval.max_new_tokens: zero-shot 6 of 7, 3 of them within their thoughts."
    assert (cut_text({"zero_shot": found}), cut_text({"final": {"image": Cut(7, 0, 0)}})) == (wanted, "")
