"""Reads yes or no from a reply, in English and Chinese, by fixed rules that never guess.

1. The answer's part of the reply begins with a word for yes or no ("No, ...", "是的,..."), and no other clause with the
   opposite.
2. In English, a sentence that repeats all words of the question that matter is yes, or no if it has one negation:
   "There is no aneurysm." for "Is there an aneurysm?". A question or reply that hedges is not read this way.
3. In Chinese, all words for yes or no in the reply agree, the longest first: "不包含" is no, though it holds "包含".

Source: the rules are ours. Other kits look for the letters "no" anywhere, so that "normal" is no.
"""

from __future__ import annotations

import re

from medtune.benchmarks.short_answers.answer_part import answer_parts
from medtune.benchmarks.short_answers.released_answers import is_chinese
from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.answer_marks import plain_characters

_YES = "yes|yeah|yep|yup|true|correct|affirmative|indeed|certainly|definitely"
_NO = "no|nope|nah|false|incorrect"
_VERDICT = re.compile(rf"[\s\"'“‘(\[*-]*(?:(?P<yes>{_YES})|(?P<no>{_NO}))\b(?![-\w])", re.I)
_CLAUSE_VERDICT = re.compile(
    rf"(?:^|[.,;:!?\n]|\band\b|\bor\b|\bbut\b)\s*(?:(?P<yes>{_YES})|(?P<no>{_NO}))\s*(?=[.,;:!?\n]|$|\band\b|\bor\b)",
    re.I,
)
_NO_VERDICT = re.compile(
    r"\s*(?:no\s+(?:idea|answer|way\s+to|information|comment)|(?:yes|no)\s*(?:and|or|/)\s*(?:yes|no))\b", re.I
)
_HEDGED = re.compile(
    r"\b(?:cannot|can['’]?t|could|unable|unsure|sure|uncertain|unclear|unknown|know|may|might|maybe|possibl[ey]|perhaps|"
    r"difficult|whether|if|would|suspicious|suspect\w*|rule[sd]?\s+out|either)\b",
    re.I,
)
_NEGATION = re.compile(r"\b(?:no|not|without|never|absent|neither|free\s+of|lacks?)\b|n['’]t\b", re.I)
_SMALL_WORDS = """is are was were be been do does did has have can there it this that these those in on at of to for
with from by and any evidence sign signs image images picture patient patients see seen visible present shown show shows
appear appears exist exists here s scan evident noted demonstrated contain contains"""
_UNSAID = frozenset(_SMALL_WORDS.split())
_CHINESE_YES = ("是的", "是", "对的", "对", "正确", "有", "包含", "包括", "可以", "能够", "能", "会", "存在")
_CHINESE_NO = (
    "不是", "不对", "否", "不正确", "错误", "没有", "未见", "无", "不包含", "不包括", "不可以", "不能", "不会",
    "不存在", "不",
)  # fmt: skip
_OF_THE_QUESTION = ("是否", "是不是", "有没有", "能不能", "有无")
_NORMAL = ("正常", "健康")
_NOT_NORMAL = ("不正常", "不健康", "异常")


def read_yes_no(reply: str, question: Question) -> str | None:
    """Returns the option of a yes/no question that a reply means: its first option is yes, its second no.

    Example:
        >>> asked = Question("q", "m", "Is there evidence of an aneurysm?", ("yes", "no"), "no", "yes_no", "p")
        >>> said = ("No.", "There is no aneurysm.", "Yes, an aneurysm is seen", "I do not know", "normal", "yes and no")
        >>> [read_yes_no(reply, asked) for reply in said]
        ['no', 'no', 'yes', None, None, None]
        >>> asked = Question("q", "m", "图中有肝脏吗?", ("有", "没有"), "有", "yes_no", "p")
        >>> [read_yes_no(reply, asked) for reply in ("是的，图中有肝脏。", "没有", "不包含。", "Yes", "肝脏")]
        ['有', '没有', '没有', '有', None]
    """
    read = {_of_part(part, question) for part in answer_parts(reply)}
    is_yes = read.pop() if len(read) == 1 else None
    return None if is_yes is None else question.options[0 if is_yes else 1]


def _of_part(part: str, question: Question) -> bool | None:
    text = plain_characters(part).strip()
    if _NO_VERDICT.match(text):
        return None
    first = _VERDICT.match(text)
    if first:
        verdicts = {first["yes"] is not None} | {each["yes"] is not None for each in _CLAUSE_VERDICT.finditer(text)}
        return verdicts.pop() if len(verdicts) == 1 else None
    return _in_chinese(text, question) if is_chinese(question) else _by_echo(text, question.text)


def _by_echo(text: str, question: str) -> bool | None:
    """Returns what a sentence says that repeats the question's words."""
    sentence = re.split(r"\n|[.!?;](?:\s|$)", text, maxsplit=1)[0]
    if _HEDGED.search(text) or _NEGATION.search(question) or re.search(r"\bor\b", question, re.I):
        return None
    asked = [word for word in normalised(question).split() if word not in _UNSAID]
    said = set(normalised(sentence).split())
    if not asked or not all(word in said for word in asked):
        return None
    negations = _NEGATION.findall(sentence)
    return None if len(negations) > 1 else not negations


def _in_chinese(text: str, question: Question) -> bool | None:
    verdicts = {is_yes for word, is_yes in _chinese_words(text, question)}
    first = _chinese_words(text, question)[:1]
    if len(verdicts) == 1:
        return verdicts.pop()
    # "不是,图中有..." answers with its first word.
    return first[0][1] if first and re.match(rf"\s*{first[0][0]}\s*[,。.;!\s]", text) else None


def _chinese_words(text: str, question: Question) -> list[tuple[str, bool]]:
    """Returns the words for yes and no in their order, each with whether it is yes."""
    words = dict.fromkeys(_CHINESE_YES, True) | dict.fromkeys(_CHINESE_NO, False)
    if question.options[0] in _NORMAL:
        words |= dict.fromkeys(_NORMAL, True) | dict.fromkeys(_NOT_NORMAL, False)
    pattern = "|".join(sorted((*_OF_THE_QUESTION, *words), key=len, reverse=True))
    return [(each, words[each]) for each in re.findall(pattern, text) if each in words]
