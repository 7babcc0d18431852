"""Share of questions answered right; unparsable and unanswered ones count as wrong."""

from collections.abc import Sequence

from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows


def metric() -> Metric:
    """Returns the share of right answers, 0 to 1; an unparsable or missing reply counts as wrong.

    >>> asked = Question("q", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
    >>> metric().value([ParsedReply(asked, None, read) for read in ("normal", "benign", None)])
    0.3333333333333333

    Source: scikit-learn, `accuracy_score`, with an unparsable answer as a label of its own.
    """
    return Metric(mean_of_rows(_is_right), guessing=guessing)


def guessing(questions: Sequence[Question]) -> float | None:
    """Returns the expected accuracy of a random choice, mean(1 / options); None where a question has no options.

    >>> options = ("a", "b", "c", "d")
    >>> guessing([Question("q", "m", "?", options[:n], "a", "choice", "p") for n in (2, 4)])
    0.375
    """
    if not all(question.options for question in questions):
        return None
    return sum(1 / len(question.options) for question in questions) / len(questions)


def _is_right(row: ParsedReply) -> float:
    return float(row.correct)
