"""Defines a parsed reply: a question, the reply to it, and the answer that a parser read, which metrics count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from medtune.data.types import Prediction, Question


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A question, the reply to it, and the answer that a parser read from the reply.

    Attributes:
        question: The question.
        prediction: The reply; None if the question was not answered, which counts as wrong.
        parsed: The option or value that was read from the reply; None if none could be read.
        unscored: True if the reply waits for a judge. It is then neither right nor wrong, and no score counts it.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None
    unscored: bool = False

    @property
    def correct(self) -> bool:
        """True if the parsed answer is exactly the true one."""
        return self.parsed is not None and self.parsed == self.question.answer


def scored_everywhere(sides: Sequence[Sequence[ParsedReply]]) -> list[list[ParsedReply]]:
    """Returns the rows of each side, without the questions to which any side has a reply that waits for a judge.

    Args:
        sides: For each side its rows, about the same questions in the same order.

    Raises:
        ValueError: The sides have different numbers of rows.
    """
    kept = [not any(row.unscored for row in answers) for answers in zip(*sides, strict=True)]
    return [list(compress(rows, kept)) for rows in sides]
