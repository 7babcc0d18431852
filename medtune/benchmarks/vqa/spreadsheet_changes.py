"""Finds what a spreadsheet made of cells: ids without their leading zeros, and grades such as 1-2 that became dates."""

import re
from collections.abc import Sequence

from medtune.data.raw.source import Place

_LEADING_ZEROS = re.compile(r"(?<!\d)(?<!\d[.,])0+(?=\d)")
_MONTHS = (
    "jan ene gen feb fév fev mar mär mrz mrt apr avr abr may mai mei mag maj jun jui giu jul juil lug aug aoû ago sep "
    "set oct okt ott out nov dec dez déc dic янв фев мар апр май июн июл авг сен окт ноя дек"
)
"""The first letters of the months in the languages of a spreadsheet program."""
_MONTH = rf"(?:{'|'.join(_MONTHS.split())})[a-zà-ÿа-я]{{0,2}}\.?"
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?|\d\d:\d\d:\d\d|"
    r"\d{1,2}([./])\d{1,2}\1(?:\d{4}|\d\d)|\d{4}([./])\d{1,2}\2\d{1,2}|(?:\d{2,4}年)?\d{1,2}月\d{1,2}日|"
    rf"\d{{1,2}}(?:\.|\.? |-|/){_MONTH}(?:[-./ ]\d{{2,4}})?|{_MONTH}[-./]\d{{2,4}}",
    re.IGNORECASE,
)
_MOST_DATES = 0.9
"""The share of dates above which the answers of a question are dates, and no grades (our own choice)."""


def made_a_date(what: str, date: str = "DATE") -> str:
    """Returns the reason of a row whose answer or option became a date; the date may be that of a single patient."""
    return (
        f"a spreadsheet made {what} a date. It does so with grades such as 1-2: type it again in a column whose format "
        f"is text, or say what it stands for: --answers {date}=1-2"
    )


def same_but_for_zeros(patient: str) -> str:
    """Returns what two spellings of a patient share that differ in leading zeros alone.

    Example:
        >>> [same_but_for_zeros(patient) for patient in ("007", "7", "P07-001", "70", "1.07")]
        ['7', '7', 'P7-1', '70', '1.07']
    """
    return _LEADING_ZEROS.sub("", patient)


def one_or_two_patients(place: Place, earlier: Place, field: str) -> ValueError:
    """Returns the error of a row whose patient is that of an earlier one but for leading zeros."""
    return ValueError(
        f"{place.file}, row {place.row}: its patient is that of {earlier.file}, row {earlier.row} but for leading "
        "zeros (or one is text, the other a number), so that one person would count as two. Write each id of the "
        f"column {field!r} in one way, as text and with all its zeros, or leave the column out: --columns patient="
    )


def made_dates(answers: Sequence[str]) -> set[int]:
    """Returns the places of the answers to one question that look like dates, where others do not.

    Example:
        >>> made_dates(["0", "01.Feb", "2"]), made_dates(["2026-02-01", "2026-03-01"]), made_dates(["May 1"])
        ({1}, set(), set())
    """
    found = {place for place, answer in enumerate(answers) if is_date(answer)}
    return found if are_made(len(found), of=len(answers)) else set()


def is_date(answer: str) -> bool:
    return _DATE.fullmatch(answer.strip()) is not None


def are_made(dates: int, *, of: int) -> bool:
    """Returns whether so many dates among the answers to one question are what a spreadsheet made of others."""
    return dates <= _MOST_DATES * of
