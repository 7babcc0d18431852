"""Reads yes or no from a reply to a Chinese question by fixed rules, which never guess.

The longest words count first: "不包含" is no, though it holds "包含" (contains). All words for yes or no have to agree,
unless the reply begins with one that ends at a punctuation mark. A reply that hedges ("不确定", not sure) says neither.
English words are understood too.

Source: the rules are ours. lmms-eval knows such words as whole replies alone, MedEvalKit knows none.
"""

from __future__ import annotations

import re
from dataclasses import replace

from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.free_answer import read_answer
from medtune.eval.scoring.parsers.yes_no_parser import parse_yes_no

_YES = ("是的", "是", "对的", "对", "正确", "有", "包含", "包括", "可以", "能够", "能", "会", "存在")
_NO = (
    "不是", "不对", "否", "不正确", "错误", "没有", "未见", "无", "不包含", "不包括", "不可以", "不能", "不会",
    "不存在", "不",
)  # fmt: skip
_OF_THE_QUESTION = ("是否", "是不是", "有没有", "能不能", "有无")
_NORMAL = ("正常", "健康")
_NOT_NORMAL = ("不正常", "不健康", "异常")
_HEDGED = re.compile("不知道|不清楚|不确定|无法|难以|不能确定|不能判断|可能|也许|或许|不好说|是或不是|有或没有")


def parse_chinese_yes_no(reply: str, question: Question) -> str | None:
    """Returns the option that a reply means: the first option of the question is yes, the second no.

    Example:
        >>> asked = Question("q", "m", "图中有肝脏吗?", ("有", "没有"), "有", "yes_no", "p")
        >>> said = ("是的，图中有肝脏。", "不包含。", "Yes", "肝脏", "不确定")
        >>> [parse_chinese_yes_no(reply, asked) for reply in said]
        ['有', '没有', '有', None, None]
    """
    answer = read_answer(reply)
    if answer is None:
        return None
    words = _words(answer, question)
    if not words:
        english = parse_yes_no(reply, replace(question, options=("yes", "no"), answer="yes"))
        if english is not None:
            return question.options[0 if english == "yes" else 1]
        return parse_choice(reply, question) if answer.isascii() else None
    verdicts = {is_yes for _, is_yes in words}
    first, is_yes = words[0]
    if _HEDGED.search(answer) or (len(verdicts) > 1 and not re.match(rf"\W*{first}\s*[,，。.;；!！\s]", answer)):
        return None
    return question.options[0 if is_yes else 1]


def _words(answer: str, question: Question) -> list[tuple[str, bool]]:
    """Returns the words for yes and no in their order, each with whether it is yes."""
    known = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
    if question.options[0] in _NORMAL:
        known |= dict.fromkeys(_NORMAL, True) | dict.fromkeys(_NOT_NORMAL, False)
    pattern = "|".join(sorted((*_OF_THE_QUESTION, *known), key=len, reverse=True))
    return [(each, known[each]) for each in re.findall(pattern, answer) if each in known]
