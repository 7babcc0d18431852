"""Words a multiple-choice question in medtune's own prompt, short enough for a model of 135 million weights."""

from string import ascii_uppercase

from medtune.data.types import AnswerFormat, Prompt, Question


def render_choice(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns a prompt with the question, its options and one line that says how to answer.

    Args:
        question: A question with its options in the order in which they are shown.
        answer_format: With "text" the model replies with an option word for word, with "letter" it replies A, B, ...,
            and with "text_letter" it replies with the words and then, on a new line, with the letter that counts.

    Example:
        >>> asked = Question("q", "m", "What is shown?", ("benign", "normal"), "normal", "choice", "p")
        >>> print(render_choice(asked, "letter").text)
        What is shown?
        A. benign
        B. normal
        Answer with its letter.
        >>> [render_choice(asked, how).target for how in ("letter", "text", "text_letter")]
        ['B', 'normal', 'normal\nAnswer: B']
    """
    options = question.options
    if question.answer not in options:
        raise ValueError(
            f"question {question.id}: the answer {question.answer!r} is not among the options {list(options)}; "
            "prepare the data again"
        )
    if answer_format == "text":
        marks, choices, how = ["- "] * len(options), options, "Answer with one option."
    else:
        letters = letters_for(question)
        marks, choices, how = [f"{x}. " for x in letters], letters, "Answer with its letter."
        if answer_format == "text_letter":
            how = "Answer with one option, then its letter."
            choices = tuple(f"{option}\nAnswer: {x}" for option, x in zip(options, letters, strict=True))
    listed = [mark + option for mark, option in zip(marks, options, strict=True)]
    return Prompt(
        text="\n".join([question.text, *listed, how]), choices=choices, target=choices[options.index(question.answer)]
    )


def letters_for(question: Question) -> tuple[str, ...]:
    """Returns the letters "A", "B", ... for the options of a question in the order in which they are shown."""
    if len(question.options) > len(ascii_uppercase):
        raise ValueError(f"question {question.id}: {len(question.options)} options, but only 26 letters; use text")
    return tuple(ascii_uppercase[: len(question.options)])
