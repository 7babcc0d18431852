"""Renders U2-Bench's questions as prompts in our own words: role, question, options and the form of the answer."""

from dataclasses import replace

from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice

_ROLE = "You are a physician who reads ultrasound images."


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    """Returns the prompt: role and question, then the options, or the form of an answer with a number or a text."""
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
    """Returns the same prompt with a line after the role that names the organ, if the question states one."""
    organ = question.facets.get("anatomy")
    named = f"The ultrasound image shows: {organ}.\n{question.text}" if organ else question.text
    return render(replace(question, text=named), answer_format)
