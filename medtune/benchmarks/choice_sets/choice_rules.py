"""Makes rules of the functions that read choices as other kits do, for the table in which they stand beside ours."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from medtune.benchmarks.medical_kits import medevalkit_choice, medxpertqa_official
from medtune.benchmarks.medical_kits.medevalkit_reply import tagged
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import letters_for
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
