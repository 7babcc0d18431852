"""Reads yes or no from a reply by fixed rules, which never guess.

Thoughts do not count, and where a reply marks its answer or says "the answer is", what follows counts. The first of
these rules that applies decides:

1. The words "yes" and "no" (or "true" and "false" as the whole reply) decide if all of them agree. A first word with a
   punctuation mark behind it ("No, ...") or "yes" as the first word outweighs later ones inside a sentence.
2. "No" in front of other words ("no mass is seen") is an answer where the question asks for these words, or where it
   asks neither for something normal nor for something absent: "no abnormality" does not answer "Is the lung normal?".
   "No doubt" and its like are not a "no".
3. A single clause that denies words of the question ("it is not normal") is a "no", and one that repeats them in their
   order up to the last ("there is a nodule") is a "yes".
4. A letter decides as for other options. Where it and the words differ, the reply says neither.
"""

import re
from dataclasses import replace

from medtune.data.types import Question
from medtune.eval.scoring.parse_replies import normalised, same_text
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.choice_statements import (
    NEGATION,
    after_thoughts,
    marked_answers,
    plain_characters,
    without_emphasis,
)

_STATED = re.compile(
    r"\banswer(?:\s+(?:to|for)\s+(?:the|this|your)\s+question)?\s*(?::|=|\bis\b(?!\s*\?)\s*:?|\bwould be\b\s*:?)\s*|"
    r"答案\s*(?:(?:是|为)\s*[:：]?|[:：])\s*",
    re.I,
)
_SENTENCE_END = re.compile(r"(?<=[^\W\d]{2}[.!?])\s+(?=[A-Z])|[。！？](?=.)|\n")
_INTRODUCED = re.compile(
    r"(?:it['’]s|(?:it|this|that)\s+is|(?:these|they|those)\s+are|there\s+(?:is|are))\s+(?=\S)", re.I
)


def read_answer(reply: str) -> str | None:
    r"""Returns the part of a reply that is its answer; None where it has none, or marks several different ones.

    Thoughts do not count. Where the reply marks its answer (<answer> tags, \boxed{}, a JSON field), that is it. Else it
    is the sentence behind the last "answer is" or "Answer:", and without these words it is the whole reply.

    Example:
        >>> [read_answer(reply) for reply in ("Liver.", "It lies low. The answer is: the liver. It is large.", "")]
        ['Liver.', 'the liver.', None]
        >>> read_answer("答案：是的"), read_answer("答案是肝脏")
        ('是的', '肝脏')
        >>> read_answer(r"<think>Spleen?</think> \boxed{\text{liver}}"), read_answer("The answer is not liver")
        ('liver', 'not liver')
    """
    text = after_thoughts(plain_characters(reply))
    marked = {normalised(each): each for each in marked_answers(text)}
    if len(marked) > 1:
        return None
    said = without_emphasis(next(iter(marked.values()), text)).strip()
    statements = list(_STATED.finditer(said))
    if statements and (rest := said[statements[-1].end() :].strip()):
        said = _SENTENCE_END.split(rest)[0].strip()
    return said or None


def without_introduction(answer: str) -> str:
    """Returns an answer without the words "it is", "this is", "there are" or the like at its beginning.

    Example:
        >>> [without_introduction(answer) for answer in ("It's the liver.", "There is no mass", "It is")]
        ['the liver.', 'no mass', 'It is']
    """
    return _INTRODUCED.sub("", answer, count=1) if _INTRODUCED.match(answer) else answer


_WORDS = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "correct": "yes", "incorrect": "no"}
_WORDS |= {"yeah": "yes", "yep": "yes", "nope": "no"}
_IDIOMS = re.compile(r"\bno (?:doubt|question)\b|\bno\.\s*\d|\b(?:yes|no)\s*(?:/|or)\s*(?:yes|no)\b")
_FIRST = re.compile(
    r"\W*(?:(?P<yes>yes)\b(?!\s*(?:and|or|/)\s*no\b)|"
    r"(?P<no>no)\b\s*(?:[.,;:!\n–—-]|\Z|(?:it|there|this|that)\b))"
)
_LETTERED = re.compile(r"\A\W*[a-z]\s*[.):\]-]+\s*(?=(?:yes|no)\b)")
_IS = re.compile(r"\b(?:is|are|was|were|shows?|has|have)\b")
_CLAUSES = re.compile(r"[,.;:!?\n]|\b(?:but|while|although|whereas)\b")
_VERDICT = re.compile(r"\b(yes|no)\b\s*(?:[.,;:!\n]|\Z)")
_WORD = re.compile(r"(?<![\w-])(yes|no)(?![\w-])")
_DENIED = re.compile(r"(?<![\w-])(?:no|not)\s+(?P<what>[^.,;:!?\n]+)")
_TURNED = re.compile(
    r"\b(?:normal|healthy|intact|clear|unremarkable|absent|absence|free of|without|no|not|lack\w*|negative|spared|"
    r"symmetric\w*|regular|preserved)\b"
)
_UNSURE = re.compile(
    r"\b(?:not (?:sure|certain|able|possible|enough|determined)|not clear (?:if|whether|that|from)|unclear|unable|"
    r"cannot|can not|can['’]t|do not know|don['’]t know|no (?:way|information|means|answer|idea))\b"
)
_SMALL = frozenset(
    re.findall(
        r"\w+",
        "is are was were be been there any this that these those it its of in on at to for with and or do does did has "
        "have had can could image picture scan seen shown visible evidence sign signs present patient",
    )
)
_PRIVATE = "\ue000"


def is_yes_no(question: Question) -> bool:
    """Returns whether the options of a question are the words yes and no, or one of them."""
    return bool(question.options) and {option.strip().casefold() for option in question.options} <= {"yes", "no"}


def parse_yes_no(reply: str, question: Question) -> str | None:
    """Returns the option, yes or no in its own spelling, that a reply states; None if it states neither or both.

    Example:
        >>> asked = Question("q", "m", "Is there a nodule?", ("Yes", "No"), "No", "yes_no", "p")
        >>> [parse_yes_no(reply, asked) for reply in ("Yes, there is.", "B", "No evidence of a nodule.", "(A) yes")]
        ['Yes', 'No', 'No', 'Yes']
        >>> [parse_yes_no(reply, asked) for reply in ("A nodule", "yes and no", "A. No", "I do not know", "")]
        [None, None, None, None, None]
    """
    words, letter = _said(reply, question), _letter(reply, question)
    if words is not None and letter is not None and words != letter:
        return None
    told = words or letter
    return next((option for option in question.options if told and option.strip().casefold() == told), None)


def _letter(reply: str, question: Question) -> str | None:
    hidden = tuple(f"{_PRIVATE}{number}" for number in range(len(question.options)))
    found = parse_choice(reply, replace(question, options=hidden, answer=hidden[0]))
    return None if found is None else question.options[hidden.index(found)].strip().casefold()


def _said(reply: str, question: Question) -> str | None:
    marked = [_read(each.casefold(), question) for each in marked_answers(after_thoughts(plain_characters(reply)))]
    told = {each for each in marked if each is not None}
    if told:
        return told.pop() if len(told) == 1 else None
    answer = read_answer(reply)
    return None if answer is None else _read(answer.casefold(), question)


def _read(said: str, question: Question) -> str | None:
    said = _LETTERED.sub("", said, count=1)
    if (whole := _WORDS.get(normalised(said))) is not None:
        return whole
    if _FIRST.match(said) or _IDIOMS.search(said) or _UNSURE.search(said):
        return _verdict(said)
    words = set(_WORD.findall(said))
    if len(words) > 1:
        return None
    if words == {"yes"}:
        return "yes"
    asked = question.text.casefold()
    if _VERDICT.search(said) or _denies(said, asked, has_no=bool(words)):
        return "no"
    return "yes" if _affirms(said, asked) else None


def _verdict(said: str) -> str | None:
    first = _FIRST.match(said)
    if first is None:
        return None
    verdicts = {first["yes"] or first["no"], *_VERDICT.findall(said)}
    return verdicts.pop() if len(verdicts) == 1 else None


def _denies(said: str, asked: str, *, has_no: bool) -> bool:
    denied, wanted = [found["what"] for found in _DENIED.finditer(said)], set(_content(asked))
    is_single = not _CLAUSES.search(said.strip(" .!"))
    if any(wanted & set(_content(what)) for what in denied):
        return has_no or is_single
    if not has_no or not denied or _TURNED.search(asked):
        return False
    return is_single or not wanted & set(_content(_DENIED.sub(" ", said)))


def _affirms(said: str, asked: str) -> bool:
    told, wanted = _content(said), _content(asked)
    if not told or _CLAUSES.search(said.strip(" .!")) or not _IS.search(said) or NEGATION.search(f"{said} {asked}"):
        return False
    places = iter(wanted)
    return told[-1] == wanted[-1] and all(word in places for word in told)


def _content(text: str) -> list[str]:
    return [word.removesuffix("s") for word in normalised(text).split() if word not in _SMALL]


def parse_closed(reply: str, question: Question) -> str | None:
    """Returns the option that a reply clearly chooses, by its letter or its words; else None.

    Options that are not yes and no are read by `parse_choice`. Where its rules find none, the reply chooses the one
    option that it equals after normalisation: "2" is the option "two", and "It's a cyst" is the option "cyst".

    Example:
        >>> asked = Question("q", "m", "How many?", ("one", "two", "a few"), "two", "choice", "p")
        >>> [parse_closed(reply, asked) for reply in ("The answer is 2.", "B", "few", "not two", "3")]
        ['two', 'two', 'a few', None, None]
    """
    if is_yes_no(question):
        return parse_yes_no(reply, question)
    told = parse_choice(reply, question)
    answer = read_answer(reply) if told is None else None
    if answer is None:
        return told
    equal = [each for each in question.options if is_answer(answer, each)]
    return equal[0] if len(equal) == 1 else None


def is_answer(answer: str, truth: str) -> bool:
    """Returns whether an answer in free words is the true one after normalisation, with or without an introduction."""
    return same_text(answer, truth) or same_text(without_introduction(answer), truth)
