"""What a parser read from one reply, beside its question: the rows that every metric counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from medtune.data.types import Prediction, Question


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A question, what was answered, and what a parser read from it.

    Attributes:
        prediction: None where the question was never answered: it counts as wrong.
        parsed: The option (or value) that was read; None where nothing could be.
        unscored: Whether the reply waits for a judge: it is neither right nor wrong, and no score counts it.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None
    unscored: bool = False

    @property
    def correct(self) -> bool:
        """Whether the parsed answer is the true one, to the letter."""
        return self.parsed is not None and self.parsed == self.question.answer


def scored_everywhere(sides: Sequence[Sequence[ParsedReply]]) -> list[list[ParsedReply]]:
    """Returns each side's rows of the questions that wait for a judge on none of them.

    Args:
        sides: Rows of the same questions in the same order.

    Raises:
        ValueError: The sides have different numbers of rows.
    """
    kept = [not any(row.unscored for row in answers) for answers in zip(*sides, strict=True)]
    return [list(compress(rows, kept)) for rows in sides]
