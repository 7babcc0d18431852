"""MedEvalKit's prompts, the plain variant, which asks for no reasoning.

The kit uses the same prompts for all sets; which of them asks a question is decided by each set's own file of the kit.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/question_formats.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import letters_for
from medtune.eval.asking.official_prompts import OfficialPrompts

_QUESTION, _OPTIONS = "question", "options"


class Form(NamedTuple):
    """One way in which the kit asks.

    Attributes:
        name: The name of the form, which is that of the scenario that is asked in it.
        gaps: The names of the gaps of its template: the texts that the kit's function is given.
    """

    name: str
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
        needed=False,
    )
    return prompts._replace(answer_format="letter", answer=_letter) if lines else prompts


def _letter(question: Question, said: str) -> str:
    return letters_for(question)[question.options.index(said)]
