"""Splits the text of a raw question into the question and its lettered options (A, B, C, ...)."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from medtune.data.seeding import stable_order
from medtune.data.types import Question, Split

_AT_LINE_START = re.compile(r"^[ \t]*\(?([A-Z])[.):][ \t]+", re.MULTILINE)
_INSIDE = re.compile(r"(?<!\S)\(?([A-Z])[.):]\s+")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class QuestionAndOptions(NamedTuple):
    """The text of a question and its options, which stood after letters in the raw text."""

    text: str
    options: tuple[str, ...]


def split_options(text: str) -> QuestionAndOptions | None:
    r"""Returns the question and its lettered options from a raw text, or None where the text has no options A and B.

    The marks "A.", "A)", "(A)" and "A:" count at the start of lines or, where no line starts with one, anywhere between
    blanks. The options are the run A, B, C, ... that begins last.

    >>> split_options("Which organ?\nA) liver\nB) colon")
    QuestionAndOptions(text='Which organ?', options=('liver', 'colon'))
    >>> split_options("Does segment A: 2 matter? A: yes B: no")
    QuestionAndOptions(text='Does segment A: 2 matter?', options=('yes', 'no'))
    """
    run = _run(text)
    if not run:
        return None
    ends = [mark.start() for mark in run[1:]] + [len(text)]
    options = tuple(text[mark.end() : end].strip() for mark, end in zip(run, ends, strict=True))
    return QuestionAndOptions(text[: run[0].start()].strip(), options)


def options_layout(text: str) -> str | None:
    r"""Returns the layout of a raw text with lettered options: "{question}", "{A}", ... stand in place of these.

    >>> options_layout("Which organ?\nA) liver\nB) colon ")
    '{question}\nA) {A}\nB) {B} '
    """
    run = _run(text)
    if not run:
        return None
    ends = [mark.start() for mark in run[1:]] + [len(text)]
    said = _gap("question", text[: run[0].start()])
    for mark, end in zip(run, ends, strict=True):
        said += mark[0] + _gap(mark[1], text[mark.end() : end])
    return said


def find_option(answer: str, options: tuple[str, ...]) -> str | None:
    """Returns the option that a raw answer names by its letter or in the option's words; None where it names none."""
    said = answer.strip()
    if said in options:
        return said
    place = LETTERS.find(said.strip("().: ").upper()) if len(said.strip("().: ")) == 1 else -1
    return options[place] if 0 <= place < len(options) else None


def _run(text: str) -> list[re.Match[str]]:
    return _run_of(_AT_LINE_START, text) or _run_of(_INSIDE, text)


def _run_of(marker: re.Pattern[str], text: str) -> list[re.Match[str]]:
    marks = list(marker.finditer(text))
    for start in range(len(marks) - 1, -1, -1):
        if marks[start][1] == "A":
            run = [marks[start]]
            for mark in marks[start + 1 :]:
                if mark[1] == LETTERS[len(run)]:
                    run.append(mark)
            if len(run) > 1:
                return run
    return []


def _gap(name: str, text: str) -> str:
    inner = text.strip()
    before, _, after = text.partition(inner) if inner else (text, "", "")
    return f"{before}{{{name}}}{after}"


def choice_question(
    question_id: str,
    *,
    media_id: str,
    text: str,
    answer: str,
    labels: Sequence[str],
    patient_id: str,
    facets: Mapping[str, str],
    seed: int,
    num_options: int | None = None,
    split: Split | None = None,
) -> Question:
    """Makes a multiple-choice question of a raw label: answer and distractors, shuffled by (seed, question_id).

    Args:
        labels: All answers that the task has; distractors are drawn from them.
        num_options: The number of options including the answer; None, or more than there are labels, shows all labels.
    """
    if len(set(labels)) < len(labels):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise ValueError(f"options of a question must differ, {', '.join(map(repr, twice))} come more than once.")
    if answer not in labels:
        raise ValueError(f"the answer is not among the {len(labels)} options.")
    wanted = len(labels) if num_options is None else min(num_options, len(labels))
    if wanted < 2:
        raise ValueError(f"a choice needs at least two options, there would be {wanted}. Give more labels or options.")
    others = [label for label in labels if label != answer]
    distractors = stable_order(others, seed, question_id, "distractors")[: wanted - 1]
    return Question(
        id=question_id,
        media_id=media_id,
        text=text,
        options=tuple(stable_order([answer, *distractors], seed, question_id, "order")),
        answer=answer,
        answer_kind="choice",
        patient_id=patient_id,
        facets=dict(facets),
        split=split,
    )
