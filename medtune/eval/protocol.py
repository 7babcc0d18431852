"""How a benchmark's authors had their models answer: temperature, repeats and the length of a reply."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerProtocol:
    """What was published.

    Attributes:
        temperature: Of sampling; 0 is greedy.
        repeats: How often each question was asked.
        max_new_tokens: Longest reply; None where it is not stated.
        source: Where it is stated.
    """

    temperature: float
    repeats: int
    max_new_tokens: int | None
    source: str
