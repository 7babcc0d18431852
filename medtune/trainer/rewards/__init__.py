"""Rewards, which say what a drawn reply is worth to a training. Each is one module.

A module that defines `def reward(question, reply) -> float` is a reward that `train.replies.reward` may name and weigh;
the module's name is the reward's name. The rewards of a reply are multiplied by their weights and added.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from medtune.data import catalog
from medtune.data.types import Prediction, Question
from medtune.eval.report.charts.rewards import TOLD
from medtune.eval.scoring.reply_score import ReplyScore

FIELD = "train.replies.reward"


@dataclass(frozen=True, slots=True)
class DrawnReply:
    """A reply that the model drew, as a reward sees it."""

    text: str  # The whole reply, a thought among it.
    read: str | None  # The option or value that the benchmark's parser read behind the thought; None if it read none.
    score: float  # What the benchmark's own metric gives for it, 0 to 1; 0 where nothing was read.
    num_tokens: int
    max_new_tokens: int  # Its largest length in tokens.
    has_ended: bool  # Whether the model ended it, and not the limit.


Reward = Callable[[Question, DrawnReply], float]


@dataclass(frozen=True)
class WeighedRewards:
    """The rewards of a stage with their weights, and the score of each benchmark that it learns from.

    Attributes:
        scores: For each member of the mixture, what a reply to its questions is worth.
    """

    scores: Sequence[ReplyScore]
    weights: Mapping[str, float]

    def of(
        self,
        member: int,
        question: Question,
        prediction: Prediction,
        *,
        num_tokens: int,
        most: int,
        verdict: str | None = None,
    ) -> "Paid":
        """Returns what a drawn reply is paid.

        Args:
            verdict: A judge's reply, where the drawn one waited for it.
        """
        scored = self.scores[member].of(question, prediction, verdict=verdict)
        drawn = DrawnReply(
            text=prediction.text or "",
            read=scored.row.parsed,
            score=scored.score,
            num_tokens=num_tokens,
            max_new_tokens=most,
            has_ended=prediction.finish_reason == "stop",
        )
        parts = {name: number_of(name, question, drawn) for name in self.weights}
        return Paid(sum(self.weights[name] * value for name, value in parts.items()), parts, drawn)


@dataclass(frozen=True, slots=True)
class Paid:
    """What a drawn reply is paid."""

    total: float
    parts: Mapping[str, float]  # Each reward before its weight.
    drawn: DrawnReply


def refuse_unknown(weights: Mapping[str, float]) -> None:
    """Refuses rewards that are not there, and weights with which no reply could be better than another."""
    for name, weight in weights.items():
        find_reward(name)
        if name in TOLD:
            raise ValueError(
                f"{FIELD}.{name}: reward/{name} is the name of something else that a training tells; give "
                f"{catalog.find(catalog.REWARDS, name).file} another name"
            )
        if not math.isfinite(weight):
            raise ValueError(f"{FIELD}.{name} is {weight}; it must be a number")
    if not any(weights.values()):
        raise ValueError(f"{FIELD} pays nothing: give at least one of them a weight, for instance {FIELD}.score=1")


def find_reward(name: str) -> Reward:
    """Returns the reward of that name."""
    try:
        return cast("Reward", catalog.load(catalog.REWARDS, name))
    except ValueError as error:
        raise ValueError(f"{FIELD}: {error}") from error


def number_of(name: str, question: Question, drawn: DrawnReply) -> float:
    """Returns what a reward pays a reply; refuses what is no finite number."""
    value = find_reward(name)(question, drawn)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(
            f"{catalog.find(catalog.REWARDS, name).file}: `reward` returned {value!r} for question {question.id!r}; it "
            "has to return a finite number"
        )
    return float(value)
