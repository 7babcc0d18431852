"""Writes acronyms in a reply as its options do: "RUL" is the right upper lobe, "magnetic resonance imaging" is MRI.

An acronym has three capital letters or more, the first ones of an option's words, and no other option has the same.
"""

import re
from collections import Counter
from functools import lru_cache

_FEWEST = 3
_LEAST_LETTERS = 5
_SMALL = frozenset(("of", "the", "and", "in", "with", "a", "an"))
_SPELT_OUT = (
    ("CT", r"comput(?:ed|er|eri[sz]ed)(?: axial)? tomograph(?:y|ic)(?: \(?CT\)?)?"),
    ("MRI", r"magnetic resonance(?: imaging)?(?: \(?MRI?\)?)?"),
    ("ultrasound", r"(?:ultra)?sonogra(?:phy|phic|m)"),
    ("X-ray", r"(?:plain )?radiograph(?:y|ic)?"),
)
"""Modalities, whose short names are options more often than their long ones."""


def spelt_as_options(text: str, options: tuple[str, ...]) -> str:
    """Returns a reply with the words of options in the place of their acronyms, and the other way round.

    >>> spelt_as_options("RUL", ("Left upper lobe", "Right upper lobe"))
    'Right upper lobe'
    >>> spelt_as_options("an optical coherence tomography", ("OCT", "Angiography"))
    'an OCT'
    """
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
        if re.fullmatch(r"[A-Z]{3,6}", option):
            words = r"[\s-]+".join(rf"{letter}[a-z]{{{_LEAST_LETTERS - 1},}}" for letter in option)
            found.append((re.compile(rf"\b{words}\b", re.I), option))
    own = {option.casefold(): option for option in options}
    return (
        *found,
        *(
            (re.compile(rf"\b{words}(?!\w)", re.I), own[short.casefold()])
            for short, words in _SPELT_OUT
            if short.casefold() in own and not any(re.search(words, option, re.I) for option in options)
        ),
    )


def _initials(option: str) -> str:
    words = re.findall(r"[^\W\d_]+", option)
    return "".join(word[0].upper() for word in words if word.lower() not in _SMALL)
