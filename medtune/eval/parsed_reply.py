"""Defines a parsed reply: a question, the reply to it, and the answer that a parser read, which metrics count."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from medtune.data.types import Prediction, Question


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A question, the reply to it, and the answer that a parser read from the reply.

    A question that was asked repeatedly has a reply for each pass. The fields are about the reply of the first pass,
    and `later` holds the replies of the others. `passes` is what a score of the question has to count.

    Attributes:
        prediction: The reply; None if the question was not answered, which counts as wrong.
        parsed: The option or value that was read from the reply; None if none could be read.
        unscored: True if the reply, or another one to the same question, waits for a judge. The question is then
            neither right nor wrong, and no score counts it.
        later: The replies of the second and all later passes to the same question.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None
    unscored: bool = False
    later: tuple[ParsedReply, ...] = ()

    @property
    def passes(self) -> tuple[ParsedReply, ...]:
        """The replies to the question, one for each pass."""
        return (replace(self, later=()), *self.later) if self.later else (self,)

    @property
    def share_right(self) -> float:
        """The share of the passes whose answer is right, 0 to 1."""
        if not self.later:
            return float(self._is_right)
        return sum(reply._is_right for reply in (self, *self.later)) / (1 + len(self.later))

    @property
    def correct(self) -> bool:
        """True if the parsed answer is the true one; of several passes, if more than half of the answers are."""
        return self.share_right > 0.5

    @property
    def is_answered(self) -> bool:
        """True if the question was answered in at least one pass."""
        return any(reply.prediction is not None for reply in (self, *self.later))

    @property
    def _is_right(self) -> bool:
        return self.parsed is not None and is_same_answer(self.parsed, self.question)


def is_same_answer(said: str, question: Question) -> bool:
    """Returns whether an answer is the true one: exactly for options and numbers, as `comparable` for free text.

    A benchmark that compares free text in another way has a parser or a metric that says so.

    >>> asked = Question("q", "m", "Where?", (), "Left lobe", "text", "p")
    >>> is_same_answer(" left  LOBE. ", asked), is_same_answer("right lobe", asked)
    (True, False)
    """
    if said == question.answer:
        return True
    return question.answer_kind == "text" and comparable(said) == comparable(question.answer)


def comparable(text: str) -> str:
    """Returns free text as it is compared: without case, surplus white space and a full stop at the end.

    >>> comparable("  The ﬁrst STRASSE. ") == comparable("the first Straße")
    True

    Source: Caseless matching of compatible characters: The Unicode Standard, section 3.13, definition D146.
    """
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", text).casefold())
    plain = unicodedata.normalize("NFKD", folded.casefold())
    return " ".join(plain.split()).removesuffix(".").rstrip()


def joined_passes(replies: Sequence[ParsedReply], *, unscored: bool) -> ParsedReply:
    """Returns the row of a question that was asked in several passes; none is scored if one waits for a judge."""
    first, *later = [replace(reply, unscored=True) for reply in replies] if unscored else replies
    return replace(first, later=tuple(later)) if later else first


def passes_of(rows: Sequence[ParsedReply]) -> list[list[ParsedReply]]:
    """Returns the rows of each pass, every list with one row for each question in the order of `rows`.

    If rows of several evaluations with different numbers of passes stand together, there are as many passes as it takes
    to count all replies to a question equally often: with five and one, the one is in each of five.
    """
    if not any(row.later for row in rows):
        return [list(rows)]
    replies = [row.passes for row in rows]
    number = math.lcm(*{len(each) for each in replies})
    return [[each[repeat % len(each)] for each in replies] for repeat in range(number)]


def num_passes(rows: Sequence[ParsedReply]) -> int:
    """Returns how many times the questions were asked, at least 1."""
    return 1 + max((len(row.later) for row in rows), default=0)


def scored_everywhere(sides: Sequence[Sequence[ParsedReply]]) -> list[list[ParsedReply]]:
    """Returns the rows of each side, without the questions to which any side has a reply that waits for a judge."""
    kept = [not any(row.unscored for row in answers) for answers in zip(*sides, strict=True)]
    return [list(compress(rows, kept)) for rows in sides]


def passes_text(repeats: int, sd: float | None = None) -> str:
    """Returns "mean of R passes", with the standard deviation between passes if it is given; "" for a single pass.

    >>> passes_text(5), passes_text(5, 0.0123), passes_text(1)
    ('mean of 5 passes', 'mean of 5 passes (standard deviation between passes 0.012)', '')
    """
    if repeats == 1:
        return ""
    spread = f" (standard deviation between passes {sd:.3f})" if sd is not None else ""
    return f"mean of {repeats} passes{spread}"
