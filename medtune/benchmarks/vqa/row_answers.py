"""Reads the options and the answer of a row, and decides what kind of answer it is.

Where a row has options, `answered` decides alone: the answer has to be one of them, or its letter or number. Without
options its decision is a first one: `kinds.of_one_kind` decides again over all rows that ask the same, unless the row
states its kind.
"""

import ast
import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from medtune.data.json_text import json_value
from medtune.data.raw.lettered_options import LETTERS, find_option, split_options
from medtune.data.raw.source import Place, Reject, RowError
from medtune.data.types import AnswerKind

YES_NO = ("yes", "no")
TRUTH_VALUES: Mapping[str, str] = {"true": YES_NO[0], "false": YES_NO[1]}
_EMPTY = ("", "nan", "null", "<na>", "#n/a")
_WORD = "null"
"""The one of them that is an option wherever options stand: what databases and pandas write is NULL, NaN or nothing."""
_NUMBER = re.compile(r"[-+]?(\d+(\.\d+)?|\.\d+|\d+,(\d\d?|\d{4,}))([eE][-+]?\d+)?")
"""A number with a decimal point or comma. With three digits behind a comma it may be a thousand, and stays text."""
_DECLARED: Mapping[str, AnswerKind | None] = {
    **dict.fromkeys(("open", "free", "text", "free_text", "open_ended", "freeform", "report"), "text"),
    **dict.fromkeys(("yes/no", "yes_no", "yesno", "binary"), "yes_no"),
    **dict.fromkeys(("choice", "multiple_choice", "multiple-choice", "mcq"), "choice"),
    **dict.fromkeys(("number", "numeric", "numerical"), "number"),
}
SEPARATORS = ("\n", "|", ";", "；", "\t", "、", " / ", "，", ",", "/")
"""What may stand between the options of one cell; the first of this list that the cell holds counts."""
_TAKEN = "Options of one cell stand between line breaks, tabs, or one of | ; ； 、 ， , / or are a JSON list"
_LETTER_FIRST = re.compile(r"\s*\(?([A-Z])(?:[.):]|\s*[:])\s*(.*)", re.DOTALL)
NOT_KNOWN = "not known"
"""What stands for the answer of a question that is to be predicted, until its own kind of answer is told."""
_INDEX = "Where answers are the places of options, say from where they count: --index-from 0, or 1."


class RowAnswer(NamedTuple):
    text: str  # The question, without options that stood in it.
    options: tuple[str, ...]  # The options in the order of the row; empty for a free answer.
    answer: str  # The answer; one of `options` where there are any.
    kind: AnswerKind
    unit: str | None  # The unit of a number; None without one.


def cell_text(value: object) -> str:
    """Returns a cell as text: "" for an empty one or "nan", "yes" and "no" for true and false, and no ".0".

    Example:
        >>> [cell_text(value) for value in (None, "NaN", " a ", 3.0, True)]
        ['', '', 'a', '3', 'yes']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return YES_NO[0] if value else YES_NO[1]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if text.casefold() in _EMPTY else text


def listed_options(value: object, place: Place, field: str) -> tuple[str, ...]:
    """Returns the options in a cell: a list, a mapping of letters, or a text that holds one.

    A text may be a JSON or Python list, options after letters ("A) liver B) colon"), or options between the first of
    `SEPARATORS` that it holds.
    """
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping):
        value = [value[letter] for letter in sorted(value) if cell_text(value[letter])]
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise place.error(f"wanted a list of options, got {type(value).__name__}.", field=field)
    return option_texts((each.get("content") if isinstance(each, Mapping) else each for each in value), place, field)


def option_texts(cells: Iterable[object], place: Place, field: str | None) -> tuple[str, ...]:
    """Returns the options in cells, of which the last ones may be empty, without letters before them.

    Between others "null" and "nan" are words, since an option is there; at the end "null" alone is one.
    """
    listed = list(cells)
    while listed and listed[-1] != _WORD and not cell_text(listed[-1]):
        listed.pop()
    texts = [each.strip() if isinstance(each, str) else cell_text(each) for each in listed]
    if not all(texts):
        raise place.error("an option between others is empty. Fill it in, or move the later ones.", field=field)
    if len(texts) == 1:
        raise place.error(f"wanted two or more options, got one. {_TAKEN}", field=field, cell=texts[0])
    return _without_letters(tuple(texts))


def answered(
    place: Place, *, text: str, answer: str, options: tuple[str, ...], declared: str, unit: str, field: str
) -> RowAnswer:
    """Returns a question with its answer, and what kind of answer that is.

    Args:
        answer: The answer of the row: an option or its letter, yes or no, a number, or words.
        declared: What the row says about its kind of answer, e.g. "OPEN"; "" where it says nothing.
    """
    said = _DECLARED.get(declared.casefold().replace(" ", "_"))
    if not answer:
        raise place.error("the answer is empty. Write it, or remove the row.", field=field)
    inside = None if options or said == "text" else split_options(text)
    if inside is not None and find_option(answer, _without_letters(inside.options)):
        text, options = inside.text, inside.options
    if options:
        return _chosen(place, text, answer, options, field)
    if said == "yes_no":
        plain = answer.rstrip(".").casefold()
        answer = TRUTH_VALUES.get(plain, answer)
    found = free_answer(text, answer, unit)
    if said not in (None, "text", found.kind):
        raise place.error(f"wanted an answer of the kind {said!r}, as the row says.", field=field, cell=answer)
    return RowAnswer(text, (), answer, "text", None) if said == "text" else found


def unanswered(
    place: Place, *, text: str, answer: str, options: tuple[str, ...], declared: str, unit: str, field: str
) -> RowAnswer:
    """Returns a question without its answer, whose place is taken by the first option, or by "".

    The arguments are those of `answered`.
    """
    said = _DECLARED.get(declared.casefold().replace(" ", "_"))
    inside = None if options or said == "text" else split_options(text)
    if inside is not None:
        text, options = inside.text, _without_letters(inside.options)
    if options:
        return _chosen(place, text, options[0], options, field)
    if said == "yes_no":
        return RowAnswer(text, YES_NO, YES_NO[0], "yes_no", None)
    return RowAnswer(text, (), "", "number" if unit or said == "number" else "text", unit or None)


def free_answer(text: str, answer: str, unit: str = "") -> RowAnswer:
    """Returns a question without options with its answer, which may be yes or no, a number, or else a text."""
    if (plain := answer.rstrip(".").casefold()) in YES_NO:
        return RowAnswer(text, YES_NO, plain, "yes_no", None)
    if _NUMBER.fullmatch(answer):
        return RowAnswer(text, (), answer.replace(",", "."), "number", unit or None)
    return RowAnswer(text, (), answer, "text", None)


def states_kind(declared: str) -> bool:
    """Returns whether a row's words about its kind of answer state one."""
    return _DECLARED.get(declared.casefold().replace(" ", "_")) is not None


def _chosen(place: Place, text: str, answer: str, options: tuple[str, ...], field: str) -> RowAnswer:
    if len(options) < 2 or len(options) > len(LETTERS) or len(set(options)) < len(options):
        raise place.error(f"wanted two to {len(LETTERS)} options that all differ, got {len(options)} options.")
    chosen = find_option(answer, options) or _in_other_words(answer, options)
    if chosen is None and (several := _several(answer, options)):
        raise place.error(
            f"the answer names {several} of the options. Where a picture may have several, they are labels: "
            f"--labels {field!r}",
            field=field,
            cell=answer,
        )
    if chosen is None:
        letters = f"{LETTERS[0]} to {LETTERS[len(options) - 1]}"
        reason = (
            f"the answer is none of the {len(options)} options, and no letter from {letters}. Correct "
            f"the answer or the options ({_TAKEN[:1].lower()}{_TAKEN[1:]})."
        )
        if answer.isdecimal() and int(answer) <= len(options):
            reject = Reject(place.file, place.row, field, f"{reason} {_INDEX}", cell=answer)
            raise PlaceAnswerError(reject, int(answer), len(options))
        raise place.error(reason, field=field, cell=answer)
    is_yes_no = sorted(option.casefold() for option in options) == sorted(YES_NO)
    return RowAnswer(text, options, chosen, "yes_no" if is_yes_no else "choice", None)


class PlaceAnswerError(RowError):
    """The error of a row whose answer may be the place of an option, counted from 0 or from 1."""

    def __init__(self, reject: Reject, index: int, number: int) -> None:
        super().__init__(reject)
        self.index, self.number = index, number


def _several(answer: str, options: tuple[str, ...]) -> int:
    """Returns how many options an answer lists; 0 where it lists fewer than two, or anything else."""
    known = {option.casefold() for option in options}
    mark = next((mark for mark in SEPARATORS if mark in answer), None)
    parts = [] if mark is None else [part.strip().casefold() for part in answer.split(mark)]
    return len(parts) if len(parts) > 1 and {*parts} <= known | {*LETTERS[: len(options)].lower()} else 0


def _in_other_words(answer: str, options: tuple[str, ...]) -> str | None:
    same = [option for option in options if option.casefold().rstrip(".") == answer.casefold().rstrip(".")]
    if len(same) == 1:
        return same[0]
    marked = _LETTER_FIRST.fullmatch(answer)
    if marked is None:
        return None
    by_letter = find_option(marked[1], options)
    return by_letter if by_letter and by_letter.casefold() == marked[2].strip().casefold() else None


def _without_letters(options: tuple[str, ...]) -> tuple[str, ...]:
    marked = [_LETTER_FIRST.fullmatch(option) for option in options]
    if len(options) > 1 and all(m is not None and m[1] == LETTERS[n] for n, m in enumerate(marked[: len(LETTERS)])):
        return tuple(m[2].strip() for m in marked if m is not None)
    return options


def _parsed(text: str) -> object:
    said = cell_text(text)
    if said[:1] in ("[", "{"):
        for parse in (json_value, ast.literal_eval):
            try:
                return parse(said)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
    lettered = split_options(said)
    if lettered is not None and not lettered.text:
        return list(lettered.options)
    for mark in SEPARATORS:
        if mark in said:
            return [part.strip() for part in said.split(mark) if part.strip()]
    return [said] if said else None
