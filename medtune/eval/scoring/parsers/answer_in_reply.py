"""Finds the part of a reply that is its answer, and compares an answer in free words with the true one."""

import re

from medtune.eval.scoring.normalised_text import normalised, same_text
from medtune.eval.scoring.parsers.choice_statements import (
    after_thoughts,
    marked_answers,
    plain_characters,
    without_emphasis,
)

_STATED = re.compile(
    r"\banswer(?:\s+(?:to|for)\s+(?:the|this|your)\s+question)?\s*(?::|=|\bis\b(?!\s*\?)\s*:?|\bwould be\b\s*:?)\s*|"
    r"\b(?:antwort|respuesta|réponse|risposta|resposta|antwoord)(?:\s+correct[ae]?)?\s*(?::|=|\b(?:ist|es|est|è|"
    r"é)\b)\s*|"
    r"(?:答案|答え|回答)\s*(?:(?:是|为)\s*[:：]?|[:：])\s*",
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

    >>> [without_introduction(answer) for answer in ("It's the liver.", "There is no mass", "It is")]
    ['the liver.', 'no mass', 'It is']
    """
    return _INTRODUCED.sub("", answer, count=1) if _INTRODUCED.match(answer) else answer


def is_answer(answer: str, truth: str) -> bool:
    """Returns whether an answer in free words is the true one after normalisation, with or without an introduction."""
    return same_text(answer, truth) or same_text(without_introduction(answer), truth)
