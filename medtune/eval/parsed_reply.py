"""A question with a reply and the answer that a parser read from it: the rows that every metric counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from medtune.data.types import Prediction, Question


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A question, the reply to it, and the answer that a parser read from the reply.

    Attributes:
        prediction: The reply; None where the question was never answered, which counts as wrong.
        parsed: The option or value that was read; None where nothing could be read.
        unscored: True where the reply waits for a judge. It is neither right nor wrong then, and no score counts it.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None
    unscored: bool = False

    @property
    def correct(self) -> bool:
        """True where the parsed answer equals the true one, to the letter."""
        return self.parsed is not None and self.parsed == self.question.answer


def scored_everywhere(sides: Sequence[Sequence[ParsedReply]]) -> list[list[ParsedReply]]:
    """Returns the rows of each side without the questions whose reply waits for a judge on any side.

    Args:
        sides: Rows of the same questions in the same order.

    Raises:
        ValueError: The sides have different numbers of rows.
    """
    kept = [not any(row.unscored for row in answers) for answers in zip(*sides, strict=True)]
    return [list(compress(rows, kept)) for rows in sides]
