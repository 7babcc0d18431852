"""Reads the labels of a picture from a reply that gives those that are there, by fixed rules that never guess.

Whatever way a reply says of a label that it is there or not is first written as "cyst: yes" or "cyst: no": ticks and
boxes, the rows of a table, lists behind "Present:" and "Absent:", a "no" in front of a list ("no cyst, mass or
shadow"). Sentences whose other words only describe are read by `labels_in_prose`, and medical things are first written
with the labels' own words. A reply that says anything else too is left unread, and so is one that only repeats all
labels.
"""

import re
from collections.abc import Mapping
from functools import cache

from medtune.benchmarks.vqa.labels_in_prose import all_but, is_none, said_in_prose
from medtune.data.languages import LANGUAGES
from medtune.data.types import Question
from medtune.eval.scoring.label_sets import joined_labels, labels_of
from medtune.eval.scoring.parsers.answer_in_reply import read_answer
from medtune.eval.scoring.parsers.listed_choices import rows_as_lines, with_words_for_boxes
from medtune.eval.scoring.parsers.medical_names import in_names_of

_YES = "yes|present|true|visible|seen|ja|oui|si|sí|1"
_NO = "no|not|absent|false|without|kein|keine|keinen|nicht|nein|non|sin|sans|0"
_NOTHINGS = "|".join(said.nothing for said in LANGUAGES.values())
_NONE = re.compile(
    rf"(?:{_NOTHINGS}|none(?: of (?:these|them|the above|the (?:\w+ )?(?:labels|findings)))?|nothing"
    r"|no (?:findings?|labels?)|no abnormalit(?:y|ies)|keine?[rs]?|aucune|ninguna|nessuna|nenhuma)"
    r"(?: (?:is|are|apply|applies|visible|seen|present))*"
)
_ALL = re.compile(
    r"(?:(?:the )?(?:picture|image|scan) shows )?"
    r"all (?:of )?(?:(?:these|them|the above|the (?:\w+ )?(?:labels|findings)) ?)?"
    r"(?:(?:are|is) )?(?:present |visible |seen )?(?:(?:except|but|apart from|other than)(?: for)? (?P<except>.+))?"
)
_FILLING = re.compile(
    r"\b(?:and|und|et|y|e|the|a|an|there|is|are|shows?|picture|image|i|see|labels?|findings?|visible|seen|present|"
    r"both|"
    r"it|this|that|apply|which|as well|also|eine?n?|der|die|das|yes|small|tiny|large|big|mild|moderate|severe|marked|"
    r"massive|trace|bilateral|unilateral|(?:left|right)(?:[- ]sided)?)\b|[和与及以]"
)
_FENCE = re.compile(r"```\w*")
_MARKS = re.compile(r"[*_`\"'\[\]{}()]")
_BETWEEN = re.compile(r"(?:^|\s)(?:[-•]|\d+[.)])(?=\s)|[.,;:|/、；，。&+!]|(?<!\w)-(?!\w)")
_INTRODUCTION = re.compile(r"[^:\n]{1,200}:\s*")
"""What stands in front of a list: "Findings:"."""
_SAYS_NO = re.compile(rf"\b(?:{_NO})\b|[不没未无]")
_VALUE = re.compile(rf":\s*(?:{_YES})\b")
_TICK_IN_FRONT = re.compile(r"^[-•\s]*\b(yes|no)\b[ \t]*(.+)$", re.M)
_TICK_BEHIND = re.compile(r"^(.+?)[ \t:]+(yes|no)[ \t]*$", re.M)
_HEADED = re.compile(
    rf"\b(?:(?P<no>(?:not |in)(?:present|seen|visible)|{_NO})|(?P<yes>{_YES}))[ \t]*:(?P<list>[^:;.\n]{{1,2000}})"
)


def read_set(reply: str, question: Question) -> str | None:
    r"""Returns the labels that a reply gives, as the answer is written; None where it says anything else, too.

    Each label is named as it is listed, in any order and case.

    Example:
        >>> from medtune.eval.scoring.label_sets import LABELS
        >>> asked = Question("q", "m", "Which?", (), "cyst", "set", "p", printed={LABELS: "cyst\nshadow"})
        >>> [read_set(reply, asked) for reply in ("Shadow and cyst.", "none", "cyst: yes, shadow: no", "mass")]
        ['cyst; shadow', 'none', 'cyst', None]
    """
    labels, answer = labels_of(question), read_answer(_FENCE.sub("", reply))
    if answer is None:
        return None
    answer = _sides_of_both(in_names_of(answer, labels), labels)
    plain = {_plain(label): label for label in labels}
    names = tuple(sorted(plain, key=len, reverse=True))
    text = _with_values(answer, names)
    every = _ALL.fullmatch(text.rstrip(" ."))
    left_out = every["except"] if every else all_but(text)
    if every or left_out:
        exceptions = _said_of(left_out or "", names)
        kept = [each for each in labels if _plain(each) not in (exceptions or ())]
        return None if left_out and exceptions is None else joined_labels(kept)
    if is_none(text, names):
        return _joined(labels, {})
    listed = _read_list(text, labels, names)
    if listed is not None:
        return listed
    plain_text = "\n".join(map(_plain, answer.split("\n")))
    said = said_in_prose(plain_text, names)
    return None if said is None or all(said.get(each) for each in names) else _joined(labels, said)


def _joined(labels: tuple[str, ...], said: Mapping[str, bool]) -> str:
    return joined_labels([each for each in labels if said.get(_plain(each))])


def _read_list(text: str, labels: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    if _unclear(names).search(text):
        return None
    introduction = _INTRODUCTION.match(text)
    if introduction and not _pattern_of_labels(names).search(introduction[0]) and not _SAYS_NO.search(introduction[0]):
        text = text[introduction.end() :]
        if {*_pattern_of_labels(names).findall(text)} == {*names} and not _VALUE.search(text):
            return None
    said = _said_of(text, names)
    return None if said is None else _joined(labels, said)


def _sides_of_both(answer: str, labels: tuple[str, ...]) -> str:
    """Returns an answer in which "both kidneys" are the left and the right one, where these are labels."""
    for label in labels:
        thing = label[len("left ") :].strip()
        other = next((each for each in labels if each.casefold() == f"right {thing.casefold()}"), None)
        if label.casefold().startswith("left ") and other is not None:
            pair = f"{label}, {other}"
            answer = re.sub(
                rf"(?i)\b(?:both|bilateral|the two|left and right|right and "
                rf"left)\s+(?:the\s+)?{re.escape(thing)}s?\b",
                pair,
                answer,
            )
    return answer


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).casefold().split())


def _with_values(answer: str, names: tuple[str, ...]) -> str:
    text = rows_as_lines(answer)
    ticked = with_words_for_boxes(text, " yes ", " no ")
    if ticked != text:
        text = _TICK_BEHIND.sub(r"\1: \2", _TICK_IN_FRONT.sub(r"\2: \1", _MARKS.sub(" ", ticked)))
    text = "\n".join(map(_plain, text.split("\n")))

    def stated(found: re.Match[str], value: str) -> str:
        return "; ".join(f"{each}: {value}" for each in _pattern_of_labels(names).findall(found[0]))

    def headed(found: re.Match[str]) -> str:
        is_list = _filled(_pattern_of_labels(names).sub(" ", found["list"])) == "" and _pattern_of_labels(names).search(
            found["list"]
        )
        return stated(found, "yes" if found["yes"] else "no") if is_list else found[0]

    text = " ".join(_HEADED.sub(headed, text).split())
    return _denied(names).sub(lambda found: stated(found, "no"), text)


def _said_of(text: str, names: tuple[str, ...]) -> dict[str, bool] | None:
    """Returns what a text says of labels; None if it contradicts itself, says nothing or anything else."""
    found: dict[str, set[bool]] = {}

    def note(match: re.Match[str]) -> str:
        is_said = not (match["no"] or match["no_after"]) and (
            match["value"] is None or re.fullmatch(_YES, match["value"]) is not None
        )
        found.setdefault(match["label"], set()).add(is_said)
        return " "

    rest = " ".join(_BETWEEN.sub(" ", _pattern(names).sub(note, text)).split())
    if any(len(values) > 1 for values in found.values()):
        return None
    said = {label: True in values for label, values in found.items()}
    if not any(said.values()) and _NONE.fullmatch(rest):
        return said
    return None if _filled(rest) or not found else said


def _filled(text: str) -> str:
    return _FILLING.sub(" ", _BETWEEN.sub(" ", text)).strip()


@cache
def _pattern_of_labels(labels: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, labels))})(?!\w)")


@cache
def _pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        rf"(?:\b(?P<no>{_NO})\s+(?:a\s+|an\s+|any\s+|or\s+)?)?(?P<label>{_pattern_of_labels(labels).pattern})"
        rf"(?:\s*[:=]\s*(?P<value>{_YES}|{_NO})\b|\s+(?:is|are)\s+(?P<no_after>not)\s+\w+)?"
    )


@cache
def _denied(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Returns the pattern of a "no" that is about all labels of a list, as in "no cyst, mass or shadow"."""
    named = _pattern_of_labels(labels).pattern
    return re.compile(
        rf"\b(?:{_NO}|neither)\s+(?:(?:any|an?|evidence of|signs? of)\s+)*{named}(?:\s*,\s*{named})*\s*,?\s+"
        rf"(?:n?or|oder)\s+(?:(?:an?|any)\s+)?{named}"
    )


@cache
def _unclear(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Returns the pattern of a "no" that may be about two labels, as in "no cyst and shadow"."""
    named = _pattern_of_labels(labels).pattern
    return re.compile(rf"\b(?:{_NO})\s+\w*\s*{named}(?:\s*,\s*|\s+)(?:(?:and|or|und|oder)\s+)?{named}")
