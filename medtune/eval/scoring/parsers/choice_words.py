"""Finds the options whose words a reply holds, longest first, outside of what it negates and asks."""

import re
from functools import lru_cache

from medtune.eval.scoring.parsers.answer_marks import plain_characters, without_emphasis
from medtune.eval.scoring.parsers.choice_statements import NEGATION

_EDGE = " …\t\r\n\"'`´‘’“”«»*_#.,:;!?()[]{}<>|~$\\"
_SENTENCE = re.compile(r"(?:[^\n.!?\u3002]|[.!?](?!\s|\Z))+[.!?\u3002]*")
_UNABLE = re.compile(
    r"\b(?:(?:i|we|one)\s+(?:do not|don['’]t|can['’]t|cannot|can not)|(?:nobody|no one) can|unable|not able|"
    r"not possible|impossible|insufficient|unclear|not (?:clear|sure|certain|enough)|more information|"
    r"(?:cannot|can not|can['’]t) (?:\w+ )?(?:be )?(?:determin|tell|say|answer|see|assess|identif|diagnos|judg)\w*)\b"
)
# In a text to be searched, these characters for private use stand for the words of the options.
_FIRST_PLACE = 0xF0000
_PLACE = re.compile("[\U000f0000-\U000ffffd]")
_WORD_BEFORE = r"(?:(?:the|a|an|in|at|on|of|to)\s+)*"
_CONTRASTS = (
    re.compile(
        rf"(?P<kept>{_PLACE.pattern})\s*[,(]?\s*(?:and\s+|but\s+)?(?:not|rather than|instead of)\s+{_WORD_BEFORE}"
        rf"(?P<denied>{_PLACE.pattern})"
    ),
    re.compile(
        rf"\bnot\s+{_WORD_BEFORE}(?P<denied>{_PLACE.pattern})\s*,?\s*but\s+(?:rather\s+)?{_WORD_BEFORE}"
        rf"(?P<kept>{_PLACE.pattern})"
    ),
)
_KEPT_TEXTS = 10_000


def worded(text: str, options: tuple[str, ...]) -> set[str] | None:
    """Returns the options whose words stand in sentences that neither negate nor ask; None if there are none.

    Of a contrast ("benign, not malignant", "not benign but malignant") the option that is kept counts.

    If another sentence denies such an option, or says that the question cannot be answered, the result is None too.
    """
    told, denied = set[int](), set[int]()
    for sentence in _SENTENCE.findall(_with_places(text, options)):
        for contrast in _CONTRASTS:
            for found in contrast.finditer(sentence):
                denied.add(ord(found["denied"]) - _FIRST_PLACE)
            sentence = contrast.sub(r"\g<kept>", sentence)
        places = {ord(character) - _FIRST_PLACE for character in _PLACE.findall(sentence)}
        is_denied = NEGATION.search(sentence) is not None
        if not places and _UNABLE.search(sentence):
            return None
        if not sentence.rstrip().endswith("?"):
            (denied if is_denied else told).update(places)
    words = [plain_words(option) for option in options]
    named = {option for option in options if words.index(plain_words(option)) in told}
    return named if named and not told & denied else None


def names_any(text: str, options: tuple[str, ...]) -> bool:
    """Returns whether a text holds the words of any option."""
    return _PLACE.search(_with_places(text, options)) is not None


def begins_with(text: str, options: tuple[str, ...]) -> str | None:
    """Returns the option with whose words a text begins, the longest of several, or None."""
    first = plain_words(text)
    longest_first = sorted(options, key=len, reverse=True)
    return next((each for each in longest_first if (words := plain_words(each)) and _pattern(words).match(first)), None)


@lru_cache(maxsize=_KEPT_TEXTS)
def _with_places(text: str, options: tuple[str, ...]) -> str:
    said = _PLACE.sub(" ", _folded(text))
    on_one_line = " ".join(said.split())
    words = [plain_words(option) for option in options]
    for each in sorted({*words} - {""}, key=lambda each: (-len(each), each)):
        # Options that are numbers often occur only once, and building a pattern takes longer than this search.
        if each in on_one_line:
            said = _pattern(each).sub(f" {chr(_FIRST_PLACE + words.index(each))} ", said)
    return said


@lru_cache(maxsize=_KEPT_TEXTS)
def plain_words(text: str) -> str:
    """Returns a text in lower case with single blanks, without markdown and without punctuation at its ends."""
    return " ".join(re.sub(r"^[-–•]\s+|\s+[-–—]$", "", _folded(text).strip(_EDGE)).strip(_EDGE).split())


def _folded(text: str) -> str:
    folded = plain_characters(without_emphasis(plain_characters(text)).casefold())
    return re.sub(r"(?<=\w)[-‐‑–](?=\w)", " ", folded)


@lru_cache(maxsize=_KEPT_TEXTS)
def _pattern(words: str) -> re.Pattern[str]:
    blanks_of_any_kind = re.escape(words).replace("\\ ", r"\s+")
    return re.compile(rf"(?<!\w)(?<!\d[.,]){blanks_of_any_kind}(?!\w|[.,]\d)")
