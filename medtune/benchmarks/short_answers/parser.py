"""Reads the answer to a short-answer question from a reply; medtune's own rule, which is the default."""

from medtune.benchmarks.short_answers.chinese_yes_no import parse_chinese_yes_no
from medtune.benchmarks.short_answers.framed_answer import is_same_answer
from medtune.benchmarks.short_answers.released_answers import is_chinese
from medtune.data.types import Question
from medtune.eval.scoring.parsers.closed_parser import parse_closed
from medtune.eval.scoring.parsers.free_answer import read_answer


def parse(reply: str, question: Question) -> str | None:
    """Returns the option of a yes/no question, or the true answer if the reply states it, else the words that it says.

    A reply is None if it is empty, states several answers, or answers a yes/no question with neither.

    Example:
        >>> asked = Question("q", "m", "Where is it?", (), "Left lung", "text", "p", {"task": "open"})
        >>> [parse(reply, asked) for reply in ("It is in the left lung.", "Answer: the liver", "")]
        ['Left lung', 'the liver', None]
    """
    if question.options:
        read = parse_chinese_yes_no if is_chinese(question) else parse_closed
        return read(reply, question)
    return question.answer if is_same_answer(reply, question.answer) else read_answer(reply)
