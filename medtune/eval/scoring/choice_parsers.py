"""Reads the chosen option from a reply by fixed rules, which never guess.

The first of these rules that applies decides:

1. The reply is an option, or its letter, but for case, white space, quotes, brackets, markdown and punctuation.
   An option's own words come before letters; letters count the options in the order shown.
2. The reply says which it is: "Answer: B", "the answer is (B)", "option B", "the answer is benign". Several such
   statements have to agree.
3. The reply starts with a marked letter: "A. ...", "(A) ...", "A: ...". Where an option's words follow directly,
   they have to be that letter's option. Markers of other letters further on make it ambiguous.
4. The reply holds the words of exactly one option, found longest first and at word boundaries ("center left" is
   not "center", "1.5" is not "1"), and, outside of those words, nothing that negates ("non-benign" does).

A hyphen inside a word counts as a space everywhere: "upper-left" is "upper left".

A reply that is ambiguous, contradictory or negated gives None, which counts as wrong and as unparsable.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from string import ascii_uppercase

from medtune.data.types import Question

_KEPT_REPLIES = 10_000
_EDGE = " \t\r\n\"'`´‘’“”«»*_#.,:;!?()[]{}<>|~"
_STATEMENT = re.compile(
    r"\b(?:answer|option|choice)\b[\s\"'*_`]*(?:\b(?:is|would be|should be)\b|[:=]|[-–](?=\s))?[\s\"'*_`:]*", re.I
)
_LETTER = re.compile(r"[(\[]?([A-Za-z])(?:[)\].,:;!\"'*_`]|$|\n)")
_BARE_LETTER = re.compile(r"([B-HJ-Z])(?=\s)")
_MARKED = re.compile(r"(?<![\w'])[(\[]([A-Za-z])[)\]]|(?:^|\n)\s*([A-Za-z])[).:](?=\s|$|\w{2})")
_NEGATION = re.compile(
    r"\b(?:not|no|non|never|neither|nor|none|without|cannot|unlikely|rather than|instead of|except|exclude[sd]?|"
    r"ruled out|rules out|absent)\b|n['’]t\b",
    re.I,
)
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)")


def parse_choice_strict(reply: str, question: Question) -> str | None:
    """Returns the option that the reply is, character by character, or whose capital letter it is; else None."""
    if reply in question.options:
        return reply
    return _by_letter(reply, question.options) if len(reply) == 1 and reply.isupper() else None


def parse_choice(reply: str, question: Question) -> str | None:
    """Returns the option that the reply chooses by the rules of this module; None if they find no single option.

    Example:
        >>> asked = Question("q", "m", "Where?", ("center", "center left", "not visible"), "center", "choice", "p")
        >>> [parse_choice(reply, asked) for reply in ("**Center left**.", "B", "Answer: (C)", "in the center left")]
        ['center left', 'center left', 'not visible', 'center left']
        >>> [parse_choice(reply, asked) for reply in ("center or center left", "not the center", "A. center left", "")]
        [None, None, None, None]
    """
    return reply if reply in question.options else _read(reply, question.options)


@lru_cache(maxsize=_KEPT_REPLIES)
def _read(reply: str, options: tuple[str, ...]) -> str | None:
    plain = _plain(reply)
    equal = [option for option in options if _plain(option) == plain]
    if plain and equal:
        return equal[0] if len(equal) == 1 else None
    if len(plain) == 1:
        return _by_letter(plain, options)
    stated = _stated(reply, options)
    if stated:
        return stated.pop() if len(stated) == 1 else None
    if _MARKED.match(reply.lstrip(" \t\r\n*_\"'`#")):
        return _marked(reply, options)
    return _contained(reply, options)


@lru_cache(maxsize=_KEPT_REPLIES)
def _plain(text: str) -> str:
    return " ".join(re.sub(r"^[-–•]\s+", "", _folded(text).strip(_EDGE)).strip(_EDGE).split())


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return re.sub(r"(?<=\w)[-‐‑–](?=\w)", " ", folded)


def _by_letter(letter: str, options: tuple[str, ...]) -> str | None:
    index = ascii_uppercase.find(letter.upper())
    return options[index] if 0 <= index < len(options) else None


def _stated(reply: str, options: tuple[str, ...]) -> set[str | None]:
    """Returns the options that the reply's answer statements name; None stands for one that names no single option."""
    found: set[str | None] = set()
    for statement in _STATEMENT.finditer(reply):
        rest = reply[statement.end() :]
        before = _SENTENCE_END.split(reply[: statement.start()])[-1]
        letter = _LETTER.match(rest) or _BARE_LETTER.match(rest)
        if letter:
            told = None if _NEGATION.search(before) else _by_letter(letter[1], options)
            found.add(_unless_contradicted(told, rest[letter.end() :], options))
        elif re.search(r"answer", statement[0], re.I) and re.search(r"(?:is|be|[:=]|[-–])[\s\"'*_`:]*$", statement[0]):
            sentence = _SENTENCE_END.split(rest.lstrip())[0]
            if _mentions(sentence, options)[0] or _NEGATION.search(sentence):
                found.add(_contained(before + " " + sentence, options))
    return found


def _marked(reply: str, options: tuple[str, ...]) -> str | None:
    marks = list(_MARKED.finditer(reply.lstrip(" \t\r\n*_\"'`#")))
    told = {_by_letter(mark[1] or mark[2], options) for mark in marks}
    if len(told) != 1:
        return None
    return _unless_contradicted(told.pop(), marks[0].string[marks[0].end() :], options)


def _unless_contradicted(told: str | None, rest: str, options: tuple[str, ...]) -> str | None:
    """Returns `told`, or None if the words directly after its letter are those of another option."""
    first = _plain(_SENTENCE_END.split(rest.strip(_EDGE))[0])
    longest_first = sorted(options, key=len, reverse=True)
    starts = [
        option
        for option in longest_first
        if (words := _plain(option)) and first.startswith(words) and _pattern(words).match(first)
    ]
    return None if starts and starts[0] != told else told


def _contained(reply: str, options: tuple[str, ...]) -> str | None:
    found, rest = _mentions(reply, options)
    return found.pop() if len(found) == 1 and not _NEGATION.search(rest) else None


def _mentions(reply: str, options: tuple[str, ...]) -> tuple[set[str], str]:
    """Returns the options whose words the reply contains, and the reply without those words."""
    rest = " ".join(_folded(reply).split())
    found: set[str] = set()
    for words in sorted({_plain(option) for option in options} - {""}, key=lambda words: (-len(words), words)):
        # Options that are numbers often occur only once, and building a pattern takes longer than this search.
        if words not in rest:
            continue
        rest, times = _pattern(words).subn(" | ", rest)
        if times:
            found.update(option for option in options if _plain(option) == words)
    return found, rest


@lru_cache(maxsize=_KEPT_REPLIES)
def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?<!\d[.,]){re.escape(words)}(?!\w|[.,]\d)")
