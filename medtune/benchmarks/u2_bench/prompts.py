"""Our wording of U2-Bench's questions: role, task, options and how to answer; the official prompts are not in here."""

from __future__ import annotations

from dataclasses import replace

from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice

_ROLE = "You are a physician who reads ultrasound images."


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns role and question, then its options, or how to answer with a number in its unit or with a text."""
    task = f"{_ROLE}\n{question.text}"
    if question.options:
        return render_choice(replace(question, text=task), answer_format)
    if question.answer_kind == "number":
        unit = f" in {question.unit}" if question.unit else ""
        how = f"Answer with one number{unit}, without a unit and without words."
    else:
        how = "Answer with the text alone."
    return Prompt(text=f"{task}\n{how}", choices=(), target=question.answer)


def render_with_anatomy(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the same prompt with a line behind the role that names the organ, where the question knows it."""
    organ = question.facets.get("anatomy")
    named = f"The ultrasound image shows: {organ}.\n{question.text}" if organ else question.text
    return render(replace(question, text=named), answer_format)
