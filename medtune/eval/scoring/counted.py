"""Decides which questions a number counts, and says of the others why it does not.

A number is a metric on the rows that a parser gave under a condition, or on some of these rows, such as a level of a
facet. Of a question that was asked in several passes it counts all replies; folds of a cross-validation are pooled.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from medtune.data.types import Prediction, Question
from medtune.eval.metric import Metric, ParsedReply

NOT_ABOUT = "the metric is not about such a question"
NO_REPLY_ASKED = "its options were read by likelihood, and it was asked for no reply"
WAITS = "a reply to it waits for a judge"


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows in the order of the questions, and for each why a number does not count it; None where it counts it."""

    of: Sequence[ParsedReply]
    why: tuple[str | None, ...]

    @property
    def places(self) -> list[int]:
        """The numbers of the rows that count."""
        return [place for place, why in enumerate(self.why) if why is None]

    @property
    def rows(self) -> list[ParsedReply]:
        """The rows that count."""
        return self._but(NOT_ABOUT, NO_REPLY_ASKED, WAITS)

    @property
    def about(self) -> list[ParsedReply]:
        """The rows that the metric is about, with those that wait for a judge."""
        return self._but(NOT_ABOUT, NO_REPLY_ASKED)

    @property
    def asked(self) -> list[ParsedReply]:
        """The rows of which an answer was wanted; a metric has to be defined on their questions."""
        return self._but(NO_REPLY_ASKED)

    def left_out(self, because: str) -> list[ParsedReply]:
        return [row for row, why in zip(self.of, self.why, strict=True) if why == because]

    def _but(self, *reasons: str) -> list[ParsedReply]:
        return [row for row, why in zip(self.of, self.why, strict=True) if why not in reasons]


def counted(rows: Sequence[ParsedReply], metric: Metric, *, replies_alone: bool = False) -> CountedRows:
    """Returns which rows a number counts.

    Args:
        replies_alone: Whether these are the rows of a parser of replies, for which questions with options were not
            asked (`reads_replies_alone`). To count them as unanswered would make a wrong answer of each.
    """
    return CountedRows(rows, tuple(_left_out_because(row, metric, replies_alone=replies_alone) for row in rows))


def _left_out_because(row: ParsedReply, metric: Metric, *, replies_alone: bool) -> str | None:
    if replies_alone and row.question.options:
        return NO_REPLY_ASKED
    if not metric.covers(row.question):
        return NOT_ABOUT
    return WAITS if row.unscored else None


def reads_replies_alone(
    parser: str, questions: Sequence[Question], predictions: Sequence[Prediction], of_replies: Collection[str]
) -> bool:
    """Returns whether a parser reads replies where likelihoods of options were read, and no reply to any of them.

    Args:
        of_replies: The names of the parsers that read replies.
    """
    with_options = {question.id for question in questions if question.options}
    readings = {prediction.key.reading for prediction in predictions if prediction.key.question_id in with_options}
    return parser in of_replies and readings == {"likelihood"}
