"""Decides which questions a number counts, and says of the others why it does not.

A number is a metric on the rows that a parser gave under a condition, or on some of these rows, such as a level of a
facet. Of a question that was asked in several passes it counts all replies; folds of a cross-validation are pooled.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Prediction, Question
from medtune.eval.metric import Metric, ParsedReply, every_question
from medtune.eval.rows import Rows, as_rows
from medtune.eval.statistics import Numbers

NOT_ABOUT = "the metric is not about such a question"
NO_REPLY_ASKED = "its options were read by likelihood, and it was asked for no reply"
WAITS = "a reply to it waits for a judge"
_REASONS = (None, NOT_ABOUT, NO_REPLY_ASKED, WAITS)


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """Rows in the order of the questions, and for each the number of the reason for which a number leaves it out."""

    of: Rows[ParsedReply]
    reasons: NDArray[np.int8]

    @property
    def why(self) -> tuple[str | None, ...]:
        """Why a number does not count a row, for each row; None where it counts it."""
        return tuple(_REASONS[each] for each in self.reasons)

    @property
    def places(self) -> Numbers:
        """The numbers of the rows that count."""
        return np.flatnonzero(self.reasons == 0)

    @property
    def rows(self) -> Rows[ParsedReply]:
        """The rows that count."""
        return self.left_out(None)

    @property
    def about(self) -> Rows[ParsedReply]:
        """The rows that the metric is about, with those that wait for a judge."""
        return self._but(NOT_ABOUT, NO_REPLY_ASKED)

    @property
    def asked(self) -> Rows[ParsedReply]:
        """The rows of which an answer was wanted; a metric has to be defined on their questions."""
        return self._but(NO_REPLY_ASKED)

    def left_out(self, because: str | None) -> Rows[ParsedReply]:
        return self.of.where(self.reasons == _REASONS.index(because))

    def _but(self, *reasons: str) -> Rows[ParsedReply]:
        return self.of.where(~np.isin(self.reasons, [_REASONS.index(each) for each in reasons]))


def counted(rows: Sequence[ParsedReply], metric: Metric, *, replies_alone: bool = False) -> CountedRows:
    """Returns which rows a number counts.

    Args:
        replies_alone: Whether these are the rows of a parser of replies, for which questions with options were not
            asked (`reads_replies_alone`). To count them as unanswered would make a wrong answer of each.
    """
    rows, covers = as_rows(rows), metric.covers
    reasons = np.where(rows.column(is_waiting) > 0, _REASONS.index(WAITS), 0).astype(np.int8)
    asked = rows.column(_has_options) == 0 if replies_alone else np.ones(len(rows), np.bool_)
    if covers is not every_question:
        about = rows.where(asked).column(lambda row: covers(row.question), known_by=covers)
        reasons[np.flatnonzero(asked)[about == 0]] = _REASONS.index(NOT_ABOUT)
    reasons[~asked] = _REASONS.index(NO_REPLY_ASKED)
    return CountedRows(rows, reasons)


def is_waiting(row: ParsedReply) -> bool:
    """Returns whether a reply waits for a judge."""
    return row.unscored


def _has_options(row: ParsedReply) -> bool:
    return bool(row.question.options)


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
