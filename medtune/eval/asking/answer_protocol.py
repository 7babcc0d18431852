"""Describes how a benchmark's authors had their models answer: temperature, repeats and length of replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from medtune.data.types import Condition


@dataclass(frozen=True, slots=True)
class AnswerProtocol:
    """The published settings with which a benchmark's models answered.

    Attributes:
        temperature: The temperature of sampling; 0 is greedy, and None means that it is not stated.
        repeats: The number of times that each question was asked.
        max_new_tokens: The length of the longest reply in tokens; None if it is not stated.
        source: Where these settings are stated.
        condition_repeats: For each condition of an ablation the number of times that it, and the plain image beside it,
            was asked.
    """

    temperature: float | None
    repeats: int
    max_new_tokens: int | None
    source: str
    condition_repeats: Mapping[Condition, int] = field(default_factory=dict)
