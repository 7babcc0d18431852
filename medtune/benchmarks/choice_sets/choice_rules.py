"""Makes rules of the functions that read choices as other kits do, for the table in which they stand beside ours.

Makes MedEvalKit's prompts of questions with options, whose lines each set writes in its own way.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/PMC_VQA/PMC_VQA.py:45-47, utils/OmniMedVQA/OmniMedVQA.py:93-102,
utils/MedXpertQA/MedXpertQA.py:52-57.

Asks and reads questions with options, of which a few sets have some whose options are letters themselves.

If option B of a question is the text "E", the reply "E" may mean the letter or the text. Such a question always asks
for the letter, as every kit does, and letters of a reply to it are always those of options. A reply that is the text
alone then names another option. In real sets these are questions about the letters in a figure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import NamedTuple

from medtune.benchmarks.medical_kits import medevalkit_choice, medxpertqa_official
from medtune.benchmarks.medical_kits.medevalkit_prompts import CHOICES, medevalkit_prompts
from medtune.benchmarks.medical_kits.medevalkit_sets import tagged
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import letters_for, render_choice
from medtune.eval.asking.official_prompts import OfficialPrompts
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.yes_no_parser import parse_closed
from medtune.eval.scoring.reply_rules import ReplyRule

_KIT = "alibaba-damo-academy/MedEvalKit@9b12e3b"


class Printed(NamedTuple):
    """The options of a question as a kit prints them, and its true answer: a letter, or else a text."""

    choices: tuple[str, ...]
    truth: str


def lettered(question: Question) -> Printed:
    """Returns options such as "A. cyst", and the letter of the true one, the first of equal ones."""
    letters = letters_for(question)
    choices = tuple(f"{letter}. {option}" for letter, option in zip(letters, question.options, strict=True))
    return Printed(choices, letters[question.options.index(question.answer)])


def medevalkit_rule(file: str, printed: Callable[[Question], Printed], *, takes_tags: bool) -> ReplyRule:
    """Returns MedEvalKit's rule for a set of multiple-choice questions.

    Args:
        file: The kit's file for the set.
        printed: Returns options and truth as the kit has them.
        takes_tags: Whether the kit first takes the content of answer tags.
    """

    def is_right(question: Question, reply: str) -> bool:
        choices, truth = printed(question)
        return medevalkit_choice.is_right(choices, truth, tagged(reply) if takes_tags else reply)

    return ReplyRule(
        title="MedEvalKit",
        source=f"{_KIT}, utils/utils.py:68-132 and {file}",
        differs=(
            "a reply that is neither a letter nor an option's words counts as the option of the most similar "
            "characters, so that an empty reply is option A, and a hedge or a refusal may be right."
        ),
        score=share_right(is_right),
    )


def medxpertqa_rule() -> ReplyRule:
    """Returns MedXpertQA's own rule, which also counts the two types of questions apart, as the authors print them."""

    def is_right(question: Question, reply: str) -> bool:
        letter = letters_for(question)[question.options.index(question.answer)]
        return medxpertqa_official.letters(reply, len(question.options)) == [letter]

    share = share_right(is_right)

    def score(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
        found = dict(share(replies))
        for kind in dict.fromkeys(question.facets["question_type"] for question, _ in replies):
            found[kind.lower()] = share([each for each in replies if each[0].facets["question_type"] == kind])[
                "accuracy"
            ]
        return found

    return ReplyRule(
        title="MedXpertQA's own code",
        source="TsinghuaC3I/MedXpertQA@f21247d, eval/utils.py:33-102",
        differs=(
            "the first capital letter that stands alone is the answer, so that the article A or an option that is "
            "only discussed counts, and an answer in words or in a small letter does not."
        ),
        score=score,
    )


def share_right(
    is_right: Callable[[Question, str], bool],
) -> Callable[[Sequence[tuple[Question, str]]], Mapping[str, float]]:
    """Returns the function of a rule whose only number is the accuracy over questions with options."""

    def score(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
        asked = [(question, reply) for question, reply in replies if question.options]
        right = sum(is_right(question, reply) for question, reply in asked)
        return {"accuracy": right / len(asked)} if asked else {}

    return score


def medevalkit_choice_prompts(printed: Callable[[Question], Printed]) -> OfficialPrompts:
    """Returns the prompts of a set of questions with options.

    Args:
        printed: Returns the lines of the options as the kit prints them for this set.
    """
    return medevalkit_prompts((CHOICES,), lambda question: CHOICES.name, lines=lambda each: printed(each).choices)


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
