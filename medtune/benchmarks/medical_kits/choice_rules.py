"""What PMC-VQA, OmniMedVQA, MedXpertQA and MMMU share: prompts and parsers of choices, and other kits' rules for them.

If option B of a question is the text "E", the reply "E" may mean the letter or the text. Such a question always asks
for the letter, as every kit does, and letters of a reply to it are always those of options. A reply that is the text
alone then names another option. In real sets these are questions about the letters in a figure.

MedEvalKit's rule never leaves a reply unread: what is neither a letter nor an option's words counts as the option whose
words are most like the reply, and as option A where nothing is alike. By MedXpertQA's own rule, the first capital
letter of an option that stands alone in a reply is the answer.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py:68-132, utils/PMC_VQA/PMC_VQA.py:45-47,
utils/OmniMedVQA/OmniMedVQA.py:93-102 and utils/MedXpertQA/MedXpertQA.py:52-57; three forks have the same rule.
TsinghuaC3I/MedXpertQA@f21247d, eval/utils.py:33-102 (method zero_shot) and eval/main.py:165-185; its README warns that
the rule does not fit models that reason at length, such as QVQ and R1. MedEvalKit's prompts, the same for all sets, are
those of its plain variant, which asks for no reasoning: utils/question_formats.py.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from medtune.benchmarks.medical_kits.medevalkit_answer import answer_part, tagged
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import letters_for, render_choice
from medtune.eval.asking.official_prompts import OfficialPrompts
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.closed_parser import parse_closed
from medtune.eval.scoring.reply_rules import ReplyRule

_QUESTION, _OPTIONS = "question", "options"

_PARAGRAPHS = "\n\n"
_ANSWER_IS = " answer is "
_RANGES = ("A through J", "A through E", "A through D")
_UNDERSTOOD = "I understand"
MEDEVALKIT = "alibaba-damo-academy/MedEvalKit@9b12e3b"
_HIDDEN = "\ue000{number}"
"""What stands in place of an option's text while letters are read: a character that no reply holds."""


class Form(NamedTuple):
    """One way in which the kit asks."""

    name: str  # The name of the form, which is that of the scenario that is asked in it.
    # The names of the gaps of its template: the texts that the kit's function is given.
    gaps: tuple[str, ...] = (_QUESTION,)


YES_NO, OPEN, CLOSED = Form("yes/no"), Form("open"), Form("closed")
"""The kit's functions get_judgement_prompt, get_open_ended_prompt and get_close_ended_prompt."""
OPEN_ZH, CLOSED_ZH = Form("open, Chinese"), Form("closed, Chinese")
CHOICES = Form("choices", (_QUESTION, _OPTIONS))
"""The kit's function get_multiple_choice_prompt."""
REPORT = Form("report", ())
"""The kit's function get_report_generation_prompt."""


def medevalkit_prompts(
    forms: Sequence[Form],
    scenario: Callable[[Question], str],
    *,
    lines: Callable[[Question], Sequence[str]] | None = None,
) -> OfficialPrompts:
    """Returns how MedEvalKit's prompts are filled for a set.

    Args:
        forms: The forms in which the kit asks the set's questions.
        scenario: Returns the name of the form that asks a question; any other name has no prompt in the kit.
        lines: Returns the lines of a question's options as the kit prints them; None for a set that the kit asks no
            choices of. With it, answers are letters.
    """

    def gaps(question: Question) -> Mapping[str, str | None]:
        options = lines(question) if lines else ()
        return {_QUESTION: question.text, _OPTIONS: "\n".join(options) if options else None}

    prompts = OfficialPrompts(
        names={form.name: form.gaps for form in forms},
        scenario=scenario,
        gaps=gaps,
        answer_format="text",
        of="MedEvalKit's",
        needed=lambda question: False,
    )
    return prompts._replace(answer_format="letter", answer=_letter) if lines else prompts


def _letter(question: Question, said: str) -> str:
    return letters_for(question)[question.options.index(said)]


def is_right_choice(choices: Sequence[str], answer: str, reply: str) -> bool:
    """Returns whether the kit counts a reply as right.

    Args:
        choices: The options as the kit prints them, with their letters where it prints them.
        answer: The letter of the true option, or its text as printed.
        reply: The reply; without what is outside of its answer tags where the kit first takes these.

    >>> printed = ["A. cyst", "B. tumour"]
    >>> said = ("A", "a. cyst", "The answer is A.", "cyst", "", "tumour")
    >>> [is_right_choice(printed, "A", reply) for reply in said]
    [True, True, True, True, True, False]
    """
    listed, truth = [choice.lower() for choice in choices], answer.strip().lower()
    letters = ascii_lowercase[: len(listed)]
    text = answer_part(_letter_of_paragraph(reply.lower(), letters)).strip().lower().replace("\n", "")
    said = text.partition(".")[0].rpartition(":")[2]
    if said == truth:
        return True
    if len(said) == 1 and said in letters:
        return listed[letters.index(said)] == truth
    if said in listed:
        return len(truth) == 1 and truth in letters and said == listed[letters.index(truth)]
    nearest = _most_similar(listed, text)
    return truth in (letters[nearest], listed[nearest])


def _letter_of_paragraph(reply: str, letters: str) -> str:
    # Three line breaks end a paragraph after two, so that the next one begins with the third.
    paragraphs = reply.split(_PARAGRAPHS)
    said = (paragraphs[0], paragraphs[-1].partition(".")[0])
    return next((each for each in said if len(each) == 1 and each in letters), reply)


def _most_similar(choices: Sequence[str], text: str) -> int:
    ratios = [difflib.SequenceMatcher(None, choice, text).ratio() for choice in choices]
    return ratios.index(max(ratios))


def medxpertqa_letters(reply: str, num_options: int) -> list[str]:
    """Returns a list with the letter that the official code reads from a reply; an empty list where it reads none.

    What stands before the request for the answer, or else before the words "answer is", does not count.

    >>> [medxpertqa_letters(reply, 5) for reply in ("(B)", "A lung is seen, so C", "The answer is D.", "b")]
    [['B'], ['A'], ['D'], []]
    """
    signs = ascii_uppercase[:num_options]
    said = _behind(reply, f"Therefore, among {signs[0]} through {signs[-1]}, the answer is")
    if said is None:
        said = _behind(reply, _ANSWER_IS)
    text = reply if said is None else said
    for phrase in (_UNDERSTOOD, *_RANGES):
        text = text.replace(phrase, "")
    found = re.search(rf"\b[{signs}]\b", text)
    return [found[0]] if found else []


def _behind(text: str, words: str) -> str | None:
    pieces = text.split(words)
    return pieces[1].strip() if len(pieces) > 1 else None


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
        takes_tags: Whether the kit first takes the content of answer tags.
    """

    def is_right(question: Question, reply: str) -> bool:
        choices, truth = printed(question)
        return is_right_choice(choices, truth, tagged(reply) if takes_tags else reply)

    return ReplyRule(
        title="MedEvalKit",
        source=f"{MEDEVALKIT}, utils/utils.py:68-132 and {file}",
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
        return medxpertqa_letters(reply, len(question.options)) == [letter]

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
    """Returns the prompts of a set of questions with options, whose lines `printed` has as the kit prints them."""
    return medevalkit_prompts((CHOICES,), lambda question: CHOICES.name, lines=lambda each: printed(each).choices)


def are_other_letters(options: Sequence[str]) -> bool:
    """Returns whether an option's text is the letter of another option.

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

    >>> asked = Question("q", "m", "Which curve?", ("C", "E", "D", "B", "A"), "E", "choice", "p")
    >>> [parse(reply, asked) for reply in ("B", "B. E", "The answer is (B).", "E")]
    ['E', 'E', 'E', 'A']
    """
    if not are_other_letters(question.options):
        return parse_closed(reply, question)
    hidden = tuple(_HIDDEN.format(number=number) for number in range(len(question.options)))
    read = parse_choice(reply, replace(question, options=hidden, answer=hidden[0]))
    return None if read is None else question.options[hidden.index(read)]
