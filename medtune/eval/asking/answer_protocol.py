"""How a benchmark's authors had their models answer: temperature, repeats and the length of a reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from medtune.data.types import Condition


@dataclass(frozen=True, slots=True)
class AnswerProtocol:
    """What was published.

    Attributes:
        temperature: Of sampling; 0 is greedy; None where it is not stated.
        repeats: How often each question was asked.
        max_new_tokens: Longest reply; None where it is not stated.
        source: Where it is stated.
        condition_repeats: Condition of an ablation -> how often it was asked, and the plain image beside it.
    """

    temperature: float | None
    repeats: int
    max_new_tokens: int | None
    source: str
    condition_repeats: Mapping[Condition, int] = field(default_factory=dict)
