"""Reads which option a reply chooses, for questions with any options; yes/no questions have rules of their own."""

from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import same_text
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.free_answer import read_answer, without_introduction
from medtune.eval.scoring.parsers.yes_no_parser import is_yes_no, parse_yes_no


def parse_closed(reply: str, question: Question) -> str | None:
    """Returns the option that a reply clearly chooses, by its letter or its words; else None.

    Options that are not yes and no are read by `parse_choice`. Where its rules find none, the reply chooses the one
    option that it equals after normalisation: "2" is the option "two", and "It's a cyst" is the option "cyst".

    Example:
        >>> asked = Question("q", "m", "How many?", ("one", "two", "a few"), "two", "choice", "p")
        >>> [parse_closed(reply, asked) for reply in ("The answer is 2.", "B", "few", "not two", "3")]
        ['two', 'two', 'a few', None, None]
    """
    if is_yes_no(question):
        return parse_yes_no(reply, question)
    told = parse_choice(reply, question)
    answer = read_answer(reply) if told is None else None
    if answer is None:
        return told
    equal = [each for each in question.options if is_answer(answer, each)]
    return equal[0] if len(equal) == 1 else None


def is_answer(answer: str, truth: str) -> bool:
    """Returns whether an answer in free words is the true one after normalisation, with or without an introduction."""
    return same_text(answer, truth) or same_text(without_introduction(answer), truth)
