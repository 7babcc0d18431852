"""Options that stand inside a question's text after letters: one a line, or one after the other."""

from __future__ import annotations

import re
from typing import NamedTuple

_AT_LINE_START = re.compile(r"^[ \t]*\(?([A-Z])[.):][ \t]+", re.MULTILINE)
_INSIDE = re.compile(r"(?<!\S)\(?([A-Z])[.):]\s+")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Lettered(NamedTuple):
    """A question taken apart."""

    text: str
    options: tuple[str, ...]


def split_options(text: str) -> Lettered | None:
    r"""Returns the question and its options, or None where there are not at least A and B.

    "A.", "A)", "(A)" and "A:" count, at the start of lines or, where no line starts so, anywhere between blanks. The
    options are the run A, B, C, ... that begins last.

    Example:
        >>> split_options("Which organ?\nA) liver\nB) colon")
        Lettered(text='Which organ?', options=('liver', 'colon'))
        >>> split_options("Does segment A: 2 matter? A: yes B: no")
        Lettered(text='Does segment A: 2 matter?', options=('yes', 'no'))
    """
    return _taken_apart(text, _AT_LINE_START) or _taken_apart(text, _INSIDE)


def option_of(answer: str, options: tuple[str, ...]) -> str | None:
    """Returns the option that an answer names, by its letter or in its own words; None where it is neither."""
    said = answer.strip()
    if said in options:
        return said
    place = LETTERS.find(said.strip("().: ").upper()) if len(said.strip("().: ")) == 1 else -1
    return options[place] if 0 <= place < len(options) else None


def _taken_apart(text: str, marker: re.Pattern[str]) -> Lettered | None:
    marks = list(marker.finditer(text))
    for start in range(len(marks) - 1, -1, -1):
        if marks[start][1] == "A":
            run = [marks[start]]
            for mark in marks[start + 1 :]:
                if mark[1] == LETTERS[len(run)]:
                    run.append(mark)
            if len(run) > 1:
                ends = [mark.start() for mark in run[1:]] + [len(text)]
                options = tuple(text[mark.end() : end].strip() for mark, end in zip(run, ends, strict=True))
                return Lettered(text[: run[0].start()].strip(), options)
    return None
