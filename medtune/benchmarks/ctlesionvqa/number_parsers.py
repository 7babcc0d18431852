"""Reads a number out of a reply as the official code of v2 and both of VSI-Bench's do; see also `eval.scoring`."""

import re
from decimal import Decimal

from medtune.eval.scoring.parsers.number_words import first_number_in_words

_V2 = re.compile(r"-?\d+\.?\d*")
_VSI = re.compile(r"-?\d+(?:\.\d+)?")


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
    digits, words = _VSI.search(said), first_number_in_words(said)
    if digits and (words is None or digits.start() < words[0]):
        return float(digits[0])
    return float(words[1]) if words else None


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


def plain(value: float) -> str:
    """Returns a finite number as text without exponent or needless zeros, which every parser of this module can read.

    Example:
        >>> plain(1e-05), plain(12.0), plain(-3.25)
        ('0.00001', '12', '-3.25')
    """
    digits = format(Decimal(repr(value)), "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
