"""Changes a benchmark's prompts for two conditions: the right answer is stated, or the organ shown is named.

The stated answer is the last line, so that the prompt shares everything before it with the plain question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.data.types import AnswerFormat, MediaKind, Prompt, Question
from medtune.eval.benchmark import Render

ORGAN_FACETS = ("anatomy", "organ")
"""The facets that name the organ of a question; the first one that the question has is used."""
_SHOWN: Mapping[MediaKind, str] = {"image": "image", "video": "video", "volume": "scan"}


def with_stated_answer(render: Render) -> Render:
    """Returns a renderer of the same prompts with the right answer stated in words: the condition "stated_answer".

    A model does not need the image for these prompts; it only has to find the stated option and to answer in the
    format that is asked for.

    >>> from medtune.eval.asking.choice_prompt import render_choice
    >>> asked = Question("q", "m", "What is shown?", ("benign", "normal"), "normal", "choice", "p")
    >>> print(with_stated_answer(render_choice)(asked, "letter").text)
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


def named_organ(question: Question) -> str | None:
    """Returns the organ that a prompt may name for a question, from its facets; None where they name none."""
    return next((question.facets[facet] for facet in ORGAN_FACETS if question.facets.get(facet)), None)


def with_named_organ(render: Render, kinds: Sequence[MediaKind]) -> Render:
    """Returns a renderer of the same prompts after a line that names the organ: the condition "with_anatomy".

    A question without a named organ or without media keeps its prompt.

    >>> from medtune.eval.asking.choice_prompt import render_choice
    >>> asked = Question("q", "m", "Is there a lesion?", ("yes", "no"), "no", "choice", "p", {"organ": "liver"})
    >>> print(with_named_organ(render_choice, ["volume"])(asked, "letter").text)
    The scan shows: liver.
    Is there a lesion?
    A. yes
    B. no
    Answer with its letter.

    Source: U2-Bench (arXiv 2505.17779), section 5, asks with and without the organ's name.
    """

    def named(question: Question, answer_format: AnswerFormat) -> Prompt:
        organ = named_organ(question)
        text = f"{_what_shows(kinds)}: {organ}.\n{question.text}" if organ and kinds else question.text
        return render(replace(question, text=text), answer_format)

    return named


def _what_shows(kinds: Sequence[MediaKind]) -> str:
    if len(kinds) == 1:
        return f"The {_SHOWN[kinds[0]]} shows"
    return f"The {' and '.join(f'{_SHOWN[kind]}s' for kind in dict.fromkeys(kinds))} show"
