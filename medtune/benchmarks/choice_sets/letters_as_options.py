"""Asks and reads questions with options, of which a few sets have some whose options are letters themselves.

If option B of a question is the text "E", the reply "E" may mean the letter or the text. Such a question always asks
for the letter, as every kit does, and letters of a reply to it are always those of options. A reply that is the text
alone then names another option. In real sets these are questions about the letters in a figure.
"""

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.closed_parser import parse_closed

_HIDDEN = "\ue000{number}"
"""What stands in place of an option's text while letters are read: a character that no reply holds."""


def are_other_letters(options: Sequence[str]) -> bool:
    """Returns whether an option's text is the letter of another option.

    Example:
        >>> are_other_letters(("C", "E", "D", "B", "A")), are_other_letters(("A", "B")), are_other_letters(("E", "n"))
        (True, False, False)
    """
    places = {text: ascii_uppercase.find(text.strip().upper()) for text in options if len(text.strip()) == 1}
    return any(0 <= place < len(options) and options[place] != text for text, place in places.items())


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt of a question with options, which asks for a letter where a text would be ambiguous."""
    is_ambiguous = answer_format == "text" and are_other_letters(question.options)
    return render_choice(question, "letter" if is_ambiguous else answer_format)


def parse(reply: str, question: Question) -> str | None:
    """Returns the option that a reply clearly chooses; None where it chooses none.

    Example:
        >>> asked = Question("q", "m", "Which curve?", ("C", "E", "D", "B", "A"), "E", "choice", "p")
        >>> [parse(reply, asked) for reply in ("B", "B. E", "The answer is (B).", "E")]
        ['E', 'E', 'E', 'A']
    """
    if not are_other_letters(question.options):
        return parse_closed(reply, question)
    hidden = tuple(_HIDDEN.format(number=number) for number in range(len(question.options)))
    read = parse_choice(reply, replace(question, options=hidden, answer=hidden[0]))
    return None if read is None else question.options[hidden.index(read)]
