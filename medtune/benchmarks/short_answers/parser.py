"""Reads the answer to a short-answer question from a reply; medtune's own rule, which is the default."""

from __future__ import annotations

from medtune.benchmarks.short_answers.answer_part import answer_parts, is_same_answer
from medtune.benchmarks.short_answers.yes_no_replies import read_yes_no
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice


def parse(reply: str, question: Question) -> str | None:
    """Returns the option of a yes/no question, or the true answer if the reply states it, else the words that it states.

    A reply is None if it is empty, states several answers, or answers a yes/no question with neither.

    Example:
        >>> asked = Question("q", "m", "Where is it?", (), "Left lung", "text", "p", {"task": "open"})
        >>> [parse(reply, asked) for reply in ("It is in the left lung.", "Answer: the liver", "")]
        ['Left lung', 'the liver', None]
    """
    if question.options:
        # A letter names an option where the prompt showed letters.
        return read_yes_no(reply, question) or parse_choice(reply, question)
    if is_same_answer(reply, question.answer):
        return question.answer
    parts = answer_parts(reply)
    return parts[0] if parts else None
