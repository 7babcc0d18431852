"""Builders of the answers that tests score: replies and likelihoods of a question, right or wrong."""

import math

from medtune.data.types import Condition, Prediction, PredictionKey, Question


def generated(
    question: Question | str,
    text: str | None,
    repeat: int = 0,
    *,
    condition: Condition = "image",
    shown: tuple[str, ...] = (),
) -> Prediction:
    """Returns a reply to a question, which may be given by its id."""
    asked = question if isinstance(question, str) else question.id
    return Prediction(PredictionKey(asked, condition, "generation", repeat), text=text, options_shown=shown)


def likelihood(question: Question, said: str) -> Prediction:
    """Returns a likelihood reading with probability 0.7 for `said`; the other options share the rest."""
    rest = 0.3 / (len(question.options) - 1)
    logprobs = tuple(math.log(0.7 if option == said else rest) for option in question.options)
    return Prediction(
        key=PredictionKey(question.id, "image", "likelihood", 0),
        options_shown=question.options,
        option_logprobs=logprobs,
        option_tokens=(1,) * len(logprobs),
    )


def wrong(question: Question) -> str:
    return next(option for option in question.options if option != question.answer)
