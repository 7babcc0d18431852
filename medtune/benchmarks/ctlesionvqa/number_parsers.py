"""Reads a number out of a reply: the official code of v2, both of VSI-Bench's, and one that refuses to guess."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from medtune.eval.scoring.think_blocks import without_thinking

_V2 = re.compile(r"-?\d+\.?\d*")
_VSI = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[a-z]+")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", *_TEENS)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_HUNDRED, _THOUSAND = 100, 1000
_WORDS = {word: value for value, word in enumerate(_UNITS)}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
_WORDS |= {"hundred": _HUNDRED, "thousand": _THOUSAND}

_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_STATEMENT = re.compile(r"\banswer\b(?:\s+is|\s*[:=])?[\s*_:]*(.+)", re.I | re.S)
_NUMBER = re.compile(
    r"(?<![\w.,/])(?P<sign>[-+\u2212]|\bminus\s+)?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<exponent>[eE][-+]?\d+)?(?![\d/])\.?(?!\d)",
    re.I,
)
_RANGE = re.compile(r"\d\s*(?:-|\u2013|\bto\b|\bor\b|\band\b)\s*[-+\u2212]?\.?\d", re.I)


def official_number(text: str) -> float | None:
    """Returns the first number in a text as the official code of version 2 reads it, or None if there is none.

    Its errors are kept: "1,123.3" gives 1, ".5" gives 5, "1e3" gives 1, "10-12" gives 10, and "L1, 14 mm" gives 1.

    Example:
        >>> [official_number(text) for text in ("-35 HU", "1,123.3", ".5", "none")]
        [-35.0, 1.0, 5.0, None]

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (extract_number).
    """
    found = _V2.search(text)
    return float(found[0]) if found else None


def vsi_number(text: str) -> float | None:
    """Returns the first number, in digits or English words, that VSI-Bench's present code finds; None if there is none.

    A block of reasoning in the reply is searched too.

    Example:
        >>> [vsi_number(text) for text in ("Three lesions.", "twenty-one", "one of 7", "1e3")]
        [3.0, 21.0, 1.0, 1.0]

    Source:
        EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py (extract_number).
    """
    said = text.strip().lower()
    digits, words = _VSI.search(said), _first_words(said)
    if digits and (words is None or digits.start() < words[0]):
        return float(digits[0])
    return float(_spelled(words[1])) if words else None


def vsi_first_token(text: str) -> float | None:
    """Returns the text before the first blank as a number, or None if Python cannot read it as one.

    Python reads "nan" and "1e3" as numbers too.

    Source:
        vision-x-nyu/thinking-in-space, lmms_eval/tasks/vsibench/utils.py (fuzzy_matching, to_float).
    """
    try:
        return float(first_token(text))
    except ValueError:
        return None


def first_token(text: str) -> str:
    """Returns the text before the first blank, without the dots at its end.

    Source:
        vision-x-nyu/thinking-in-space, lmms_eval/tasks/vsibench/utils.py (fuzzy_matching).
    """
    return text.split(" ")[0].rstrip(".").strip()


def robust_number(text: str, unit: str | None = None) -> float | None:
    """Returns the one number that a reply states; None if it states none or if it is not clear which one it means.

    The rules apply in this order: if the reply contains "answer:", only the text after it counts; if numbers stand
    directly before the unit, only they count; numbers attached to letters ("L1") or in fractions do not count; a range
    or several different numbers give None; number words count if there are no digits. Thousands separators, exponents,
    a leading dot, and "-" or "minus" as a sign are understood.

    Args:
        text: The reply.
        unit: The unit of the true answer, e.g. "cm"; None if it has none.

    Example:
        >>> [robust_number(text) for text in ("1,123.3 cc", "about .5", "minus 35", "10-12", "Two lesions")]
        [1123.3, 0.5, -35.0, None, 2.0]
        >>> robust_number("2 lesions, the larger 3.1 cm", "cm")
        3.1
    """
    if _PLAIN.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    return _robust_of_prose(without_thinking(text), unit)


def plain(value: float) -> str:
    """Returns a finite number as text without exponent or needless zeros, which every parser of this module can read.

    Example:
        >>> plain(1e-05), plain(12.0), plain(-3.25)
        ('0.00001', '12', '-3.25')
    """
    digits = format(Decimal(repr(value)), "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _robust_of_prose(said: str, unit: str | None) -> float | None:
    statement = _STATEMENT.search(said)
    said = statement[1] if statement and any(c.isdigit() for c in statement[1]) else said
    if _RANGE.search(said):
        return None
    found = list(_NUMBER.finditer(said))
    with_unit = [match for match in found if unit and said[match.end() :].lstrip().startswith(unit)]
    values = {_value(match) for match in with_unit or found}
    if not any(c.isdigit() for c in said):
        words = _first_words(said.lower())
        values = {float(_spelled(words[1]))} if words else set()
    found_one = values.pop() if len(values) == 1 else None
    return found_one if found_one is not None and math.isfinite(found_one) else None


def _value(match: re.Match[str]) -> float:
    size = float(match["digits"].replace(",", "") + (match["exponent"] or ""))
    return -size if (match["sign"] or "+").strip().lower() in ("-", "\u2212", "minus") else size


def _first_words(said: str) -> tuple[int, list[str]] | None:
    """Returns the start of the first sequence of number words, and the sequence, which may contain "and"."""
    start, run = 0, list[str]()
    for match in _WORD.finditer(said):
        if match[0] in _WORDS:
            start = start if run else match.start()
            run.append(match[0])
        elif run and match[0] != "and":
            break
    return (start, run) if run else None


def _spelled(words: list[str]) -> int:
    total = current = 0
    for word in words:
        value = _WORDS[word]
        if value == _HUNDRED:
            current = max(current, 1) * value
        elif value == _THOUSAND:
            total, current = total + max(current, 1) * value, 0
        else:
            current += value
    return total + current
