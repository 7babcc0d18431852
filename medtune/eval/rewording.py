"""A wording made of a benchmark's own: the right answer stated in words.

It only adds a line at the end, so that it shares everything before with the question itself.
"""

from __future__ import annotations

from dataclasses import replace

from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Render


def stating(render: Render) -> Render:
    """Returns the same wording with the right answer stated in words: the condition "stated_answer".

    Whoever reads need not look at the image: it has to find the stated option and to answer in the format asked for.

    Example:
        >>> from medtune.eval.choice_prompt import render_choice
        >>> asked = Question("q", "m", "What is shown?", ("benign", "normal"), "normal", "choice", "p")
        >>> print(stating(render_choice)(asked, "letter").text)
        What is shown?
        A. benign
        B. normal
        Answer with its letter.
        The right answer is normal.
    """

    def stated(question: Question, answer_format: AnswerFormat) -> Prompt:
        prompt = render(question, answer_format)
        return replace(prompt, text=f"{prompt.text}\nThe right answer is {question.answer}.")

    return stated
