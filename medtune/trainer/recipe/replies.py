"""The block `train.replies` of a recipe."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Interval

from medtune.data.bounds import Count, Positive, Weight

Pairs = Literal["options", "draws", "rejected"]


@dataclass(frozen=True)
class ReplySettings:
    """The replies that a loss over draws or pairs learns from, such as grpo and dpo; other losses do not read it.

    Attributes:
        draws: Replies that the model draws to each question of a step, with the weights of that step.
        temperature: Temperature at which they are drawn, above 0.
        top_p: The probability of the likeliest tokens that are drawn from; 1 draws from all.
        max_new_tokens: The largest length of a drawn reply, in tokens.
        num_iterations: Optimizer steps that learn from the same draws; the media groups of a step are then asked that
            often in a row. 1 draws anew for each step.
        reward: What a drawn reply is paid, by name, each with its weight (`medtune list rewards`); score is the
            benchmark's own metric of the reply.
        metric: The benchmark's metric that counts as score; None takes its first that has a value for a single reply.
        judge: Whether the judge of eval.judge, whose endpoint then needs a cap (max_usd), gives the score of draws to
            questions that only a judge scores: its points as a share of the most.
        scale_rewards: What the distance of a reward from the mean of its question's draws is divided by: their
            standard deviation (group), or nothing (none).
        pairs: Where a loss over pairs has the worse reply from: options is the wrong option that the model finds most
            likely at that step, draws the worst against the best draw by reward, rejected the text that a table
            brought (`medtune prepare vqa --columns rejected=COLUMN`).
    """

    draws: Annotated[int, Interval(ge=2, le=1024)] = 8
    temperature: Positive = 1.0
    top_p: Annotated[float, Interval(gt=0, le=1)] = 1.0
    max_new_tokens: Count = 64
    num_iterations: Annotated[int, Interval(ge=1, le=64)] = 1
    reward: dict[str, Weight] = field(default_factory=lambda: {"score": 1.0})
    metric: str | None = None
    judge: bool = False
    scale_rewards: Literal["group", "none"] = "group"
    pairs: Pairs = "options"
