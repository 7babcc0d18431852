"""Parses the answer cells of CTLesionVQA's tables: a number with its unit, or an option."""

import re
from typing import NamedTuple

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import Row
from medtune.data.raw.lettered_options import find_option, split_options

# A digit after a letter, "^" or a point is not the start of a number but belongs to a unit ("cm3", "cm^3") or a number.
_NUMBER = re.compile(r"(?<![\w.^])(?:[-+]\s?)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\d])")
_UNIT = re.compile(r"\s*(cm\s?(?:\^3|³|3)|cc|ml|hu|cm|mm|%)(?!\w)", re.I)
_CORRECT = re.compile(r"\(?([A-Z])[.):]\s")


class Measured(NamedTuple):
    """A number with its unit.

    Attributes:
        value: The number.
        text: The number as a plain text without thousands separators.
        unit: The unit as it is written; None if there is none.
    """

    value: float
    text: str
    unit: str | None


class Choice(NamedTuple):
    """A multiple-choice question, split into its text, its options and the right option."""

    text: str
    options: tuple[str, ...]
    answer: str


def number_and_unit(answer: str) -> Measured | None:
    """Returns the only number of an answer, or None if there is none or more than one.

    Example:
        >>> [number_and_unit(answer) for answer in ("1,293.7 cm^3", "Slice 174", "-32.4")]
        [Measured(value=1293.7, text='1293.7', unit='cm^3'), Measured(value=174.0, text='174', unit=None), \
Measured(value=-32.4, text='-32.4', unit=None)]
        >>> [number_and_unit(answer) for answer in ("none", "2 or 3", "1.2.3")]
        [None, None, None]
    """
    found = list(_NUMBER.finditer(answer.replace("\u2212", "-")))
    if len(found) != 1 or answer[found[0].end() :].startswith("."):
        return None
    text = found[0][0].replace(",", "").replace(" ", "").removeprefix("+")
    unit = _UNIT.match(answer, found[0].end())
    return Measured(float(text), text, unit[1] if unit else None)


def number(row: Row) -> Measured:
    """Returns the number in a row's answer, with the unit of the question if the answer states none.

    Raises:
        RowError: The answer is not exactly one number.
    """
    found = number_and_unit(row.get("answer"))
    if found is None:
        raise row.error("answer", f"wanted one number, got {row.get('answer')!r}")
    asked = re.search(r"(?:\(|\bin )\s*" + _UNIT.pattern, row.get("question"), re.I)
    return found if found.unit or not asked else found._replace(unit=asked[1])


def choice(row: Row) -> Choice:
    """Returns a row's multiple-choice question, whose options are read from the question's text.

    Raises:
        RowError: There are fewer than two different options, or the answer is none of them.
    """
    lettered = split_options(row.get("mc_question"))
    if lettered is None or not all(lettered.options) or len(set(lettered.options)) < len(lettered.options):
        raise row.error("mc_question", "wanted two or more different options after A, B, ...")
    said = row.get("correct_option")
    letter = _CORRECT.match(said)
    answer = find_option(letter[1] if letter else said, lettered.options)
    if answer is None:
        raise row.error("correct_option", f"{said!r} is not among the {len(lettered.options)} options")
    return Choice(lettered.text, lettered.options, answer)
