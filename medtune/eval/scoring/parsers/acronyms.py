"""Writes acronyms in a reply as its options do: "RUL" is the right upper lobe, "magnetic resonance imaging" is MRI.

An acronym has three capital letters or more, the first ones of an option's words, and no other option has the same.
"""

import re
from collections import Counter
from functools import lru_cache

from medtune.eval.scoring.parsers.medical_names import in_names_of

_FEWEST = 3
_LEAST_LETTERS = 5
_SMALL = frozenset(("of", "the", "and", "in", "with", "a", "an"))


def spelt_as_options(text: str, options: tuple[str, ...]) -> str:
    """Returns a reply with the words of options in the place of their acronyms, and the other way round.

    >>> spelt_as_options("RUL", ("Left upper lobe", "Right upper lobe"))
    'Right upper lobe'
    >>> spelt_as_options("an optical coherence tomography", ("OCT", "Angiography"))
    'an OCT'
    """
    text = in_names_of(text, options)
    for pattern, option in _patterns(options):
        text = pattern.sub(option.replace("\\", r"\\"), text)
    return text


@lru_cache(maxsize=10_000)
def _patterns(options: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    initials = {option: _initials(option) for option in options}
    number = Counter(initials.values())
    found = [
        (re.compile(rf"(?<![\w-]){short}(?![\w-])"), option)
        for option, short in initials.items()
        if len(short) >= _FEWEST and number[short] == 1 and not any(short in each for each in options)
    ]
    for option in options:
        for short in re.findall(r"\b[A-Z]{3,6}\b", option):
            words = r"[\s-]+".join(rf"{letter}[a-z]{{{_LEAST_LETTERS - 1},}}" for letter in short)
            found.append((re.compile(rf"\b{words}\b", re.I), short))
    return tuple(found)


def _initials(option: str) -> str:
    words = re.findall(r"[^\W\d_]+", option)
    return "".join(word[0].upper() for word in words if word.lower() not in _SMALL)
