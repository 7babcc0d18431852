"""How far a server may be from the model in this process, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medtune.data.types import Prediction, PredictionKey
from medtune.models.server.engines import ServedDtype
from medtune.trainer.engine.agreement import agreement


def likelihood(number: int, *logprobs: float) -> Prediction:
    key = PredictionKey(f"q{number}", "image", "likelihood", 0)
    return Prediction(key, option_logprobs=logprobs, option_tokens=(2,) * len(logprobs))


def reply(number: int, text: str) -> Prediction:
    return Prediction(PredictionKey(f"q{number}", "image", "generation", 0), text=text)


LOCAL = [likelihood(0, -1.0, -2.0), likelihood(1, -3.0, -1.0), reply(0, "A"), reply(1, "B")]


def test_differences_are_counted_for_each_token() -> None:
    found = agreement(LOCAL, [likelihood(0, -1.0, -0.9), likelihood(1, -3.0, -1.1), reply(0, "A"), reply(1, "C")])
    # Of two tokens each, one option is off by 1.1 and another by 0.1: 0.55 and 0.05 for each token, over four options.
    assert (found.questions, found.options, found.choices, found.same_choices) == (2, 4, 2, 1)
    assert found.largest == pytest.approx(0.55)
    assert found.mean == pytest.approx(0.15)
    assert (found.replies, found.same_replies) == (2, 1)
    assert "option 2: -0.9000 there, -2.0000 here" in found.worst
    assert found.text("bfloat16").startswith("1 of 2 choices are the same; ")


@pytest.mark.parametrize(
    ("dtype", "shift", "texts", "refused"),
    [
        ("float32", 0.001, "AB", False),
        ("float32", 0.004, "AB", True),
        ("float32", 0.0, "AC", True),
        ("float16", 0.02, "AC", False),
        ("float16", 0.06, "AB", True),
        ("bfloat16", 0.2, "AC", False),
        ("bfloat16", 0.3, "AB", True),
        ("bfloat16", 0.0, "CC", True),
    ],
)
def test_what_the_number_format_does_not_explain_is_refused(
    dtype: ServedDtype, shift: float, texts: str, *, refused: bool
) -> None:
    served = [
        likelihood(0, -1.0 - shift, -2.0 - shift), likelihood(1, -3.0 - shift, -1.0 - shift),
        reply(0, texts[0]), reply(1, texts[1]),
    ]  # fmt: skip
    found = agreement(LOCAL, served)
    if not refused:
        found.refuse(dtype)
        return
    with pytest.raises(ValueError, match="does not answer like the model in this process"):
        found.refuse(dtype)


def test_one_option_far_off_is_refused_where_the_mean_is_small() -> None:
    here = [likelihood(number, -1.0, -2.0) for number in range(20)]
    there = [*here[1:], likelihood(0, -1.0, -4.5)]
    with pytest.raises(ValueError, match=r"q0.*option 2: -4\.5000 there"):
        agreement(here, there).refuse("bfloat16")


def test_other_questions_or_options_are_refused() -> None:
    with pytest.raises(ValueError, match="not asked the same questions"):
        agreement(LOCAL, LOCAL[:3])
    longer = replace(LOCAL[0], option_tokens=(3, 2))
    with pytest.raises(ValueError, match="asked about other options"):
        agreement(LOCAL, [longer, *LOCAL[1:]])
