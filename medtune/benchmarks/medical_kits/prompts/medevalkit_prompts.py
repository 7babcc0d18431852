"""Reads MedEvalKit's prompts from the user's copy of the kit: the plain variant, which asks for no reasoning.

The copy is a clone, or its folder utils. Its file question_formats.py is read and never run. The kit uses the same
prompts for all sets; which of them asks a question is decided by each set's own file of the kit.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/question_formats.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.medical_kits.prompts.kit_interpreter import KitCode, Value
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import letters_for
from medtune.eval.asking.official_prompts import OfficialPrompts

_FILE = "question_formats.py"
_KNOWN = (
    "medtune reads https://github.com/alibaba-damo-academy/MedEvalKit at 9b12e3b: take that, or leave --prompts out."
)
_QUESTION, _OPTIONS = "question", "options"


class Form(NamedTuple):
    """One way in which the kit asks.

    Attributes:
        name: The name of the form, which is that of the scenario that is asked in it.
        function: The kit's function that puts the prompt together.
        gaps: The names of the gaps of its template: the texts that the function is given.
        language: The kit's code of the language.
    """

    name: str
    function: str
    gaps: tuple[str, ...] = (_QUESTION,)
    language: str = "en"


YES_NO = Form("yes/no", "get_judgement_prompt")
OPEN = Form("open", "get_open_ended_prompt")
CLOSED = Form("closed", "get_close_ended_prompt")
OPEN_ZH, CLOSED_ZH = (each._replace(name=f"{each.name}, Chinese", language="zh") for each in (OPEN, CLOSED))
CHOICES = Form("choices", "get_multiple_choice_prompt", (_QUESTION, _OPTIONS))
REPORT = Form("report", "get_report_generation_prompt", ())


def medevalkit_prompts(
    forms: Sequence[Form],
    scenario: Callable[[Question], str],
    *,
    lines: Callable[[Question], Sequence[str]] | None = None,
) -> OfficialPrompts:
    """Returns how MedEvalKit's prompts are read and filled for a set.

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
        read=lambda folder: read(folder, forms),
        scenario=scenario,
        gaps=gaps,
        answer_format="text",
        of="MedEvalKit's",
        needed=False,
    )
    return prompts._replace(answer_format="letter", answer=_letter) if lines else prompts


def read(folder: Path, forms: Sequence[Form]) -> Mapping[str, str]:
    """Returns the templates of some forms by their names.

    Raises:
        FileNotFoundError: The kit's file is missing.
        ValueError: The kit's file is not the version that medtune knows.
    """
    path = next((file for place in ("utils", ".") if (file := folder / place / _FILE).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{folder}: wanted {_FILE} of MedEvalKit: give a clone of "
            "https://github.com/alibaba-damo-academy/MedEvalKit, or its folder utils; check --prompts"
        )
    code = KitCode(path, known=_KNOWN)
    return {form.name: _template(code, form) for form in forms}


def _template(code: KitCode, form: Form) -> str:
    marks = {gap: f"{{{gap}}}" for gap in form.gaps}
    given: list[Value] = [[mark] if gap == _OPTIONS else mark for gap, mark in marks.items()]
    named: dict[str, Value] = {"is_reasoning": False, "lang": form.language} if given else {}
    said = code.result(form.function, *given, **named)
    if not said.strip() or any(said.count(mark) != 1 for mark in marks.values()):
        wanted = f"a text that holds {' and '.join(marks.values())} once" if marks else "a text"
        raise ValueError(f"{code.path}: wanted {form.function} to return {wanted}, it does not. {_KNOWN}")
    return said


def _letter(question: Question, said: str) -> str:
    """Returns the letter of an option."""
    return letters_for(question)[question.options.index(said)]
