"""Tells closed questions, which list their answers, from open ones, and short true answers from reports."""

from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import normalised

MAX_SHORT_WORDS = 5
"""The words of the longest true answer that counts as short, after normalisation; a longer one is a text."""


def is_closed(question: Question) -> bool:
    """Returns whether a question lists the answers to choose from."""
    return bool(question.options)


def is_open(question: Question) -> bool:
    """Returns whether a question is answered in free words or with a number, and compared with one true answer."""
    return not question.options and question.answer_kind != "rubric"


def num_words(question: Question) -> int:
    """Returns the number of words of the true answer after normalisation."""
    return len(normalised(question.answer).split())


def is_short(question: Question) -> bool:
    """Returns whether a question is open and its true answer is a number, a word or a short phrase.

    Example:
        >>> asked = Question("q", "m", "?", (), "The left upper lobe", "text", "p")
        >>> is_short(asked), num_words(asked)
        (True, 3)
    """
    return is_open(question) and num_words(question) <= MAX_SHORT_WORDS
