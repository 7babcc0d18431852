"""Options that stand inside a question's text after letters: one a line, or one after the other."""

from __future__ import annotations

import re
from typing import NamedTuple

_AT_LINE_START = re.compile(r"^[ \t]*\(?([A-Z])[.):][ \t]+", re.MULTILINE)
_INSIDE = re.compile(r"(?<!\S)\(?([A-Z])[.):]\s+")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class QuestionAndOptions(NamedTuple):
    """A question taken apart."""

    text: str
    options: tuple[str, ...]


def split_options(text: str) -> QuestionAndOptions | None:
    r"""Returns the question and its options, or None where there are not at least A and B.

    "A.", "A)", "(A)" and "A:" count, at the start of lines or, where no line starts so, anywhere between blanks. The
    options are the run A, B, C, ... that begins last.

    Example:
        >>> split_options("Which organ?\nA) liver\nB) colon")
        Lettered(text='Which organ?', options=('liver', 'colon'))
        >>> split_options("Does segment A: 2 matter? A: yes B: no")
        Lettered(text='Does segment A: 2 matter?', options=('yes', 'no'))
    """
    run = _run(text)
    if not run:
        return None
    ends = [mark.start() for mark in run[1:]] + [len(text)]
    options = tuple(text[mark.end() : end].strip() for mark, end in zip(run, ends, strict=True))
    return QuestionAndOptions(text[: run[0].start()].strip(), options)


def options_layout(text: str) -> str | None:
    r"""Returns what is left of a text that `split_options` takes apart: "{question}" and "{A}" where these stood.

    Example:
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
    """Returns the option that an answer names, by its letter or in its own words; None where it is neither."""
    said = answer.strip()
    if said in options:
        return said
    place = LETTERS.find(said.strip("().: ").upper()) if len(said.strip("().: ")) == 1 else -1
    return options[place] if 0 <= place < len(options) else None


def _run(text: str) -> list[re.Match[str]]:
    """Returns the marks A, B, C, ... of the options; none where there are not two."""
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


def _gap(name: str, part: str) -> str:
    """Returns the blanks around a part, and its name in its place."""
    inner = part.strip()
    before, _, after = part.partition(inner) if inner else (part, "", "")
    return f"{before}{{{name}}}{after}"
