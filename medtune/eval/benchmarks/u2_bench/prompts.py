"""Our wording of U2-Bench's questions; the official prompts are not part of this project."""

from __future__ import annotations

from dataclasses import replace

from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.choice_prompt import render_choice


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt of a question: of options, of a number in its unit, or of a free text."""
    if question.options:
        return render_choice(question, answer_format)
    if question.answer_kind == "number":
        unit = f" in {question.unit}" if question.unit else ""
        how = f"Answer with one number{unit}, without a unit and without words."
    else:
        how = "Answer with the text alone."
    return Prompt(text=f"{question.text}\n{how}", choices=(), target=question.answer)


def render_with_anatomy(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the same prompt after a line that names the organ, where the question knows it."""
    organ = question.facets.get("anatomy")
    named = f"The ultrasound image shows: {organ}.\n{question.text}" if organ else question.text
    return render(replace(question, text=named), answer_format)
