"""Reads yes or no from a reply to a Chinese question by fixed rules, which never guess.

A reply is read clause by clause. The longest words count first: "不包含" is no, though it holds "包含" (contains).

1. A clause that is nothing but such words decides; several of them have to agree.
2. Without one, a clause decides that repeats what is asked, up to the last word of the question, and adds nothing:
   "图中有肝脏" answers "图中有肝脏吗?", and "图中包含脾脏" does not; "没有异常" does not answer "肺正常吗?". It is a no
   if it holds one "no" more than the question does, so that "肺不正常" is a yes to "肺不正常吗?".
3. A reply that hedges ("不确定", not sure) says neither.

English words are understood too.

Source: the rules are ours. lmms-eval knows such words as whole replies alone, MedEvalKit knows none.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from medtune.data.types import Question
from medtune.eval.scoring.parsers.answer_in_reply import read_answer
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.closed_parser import parse_yes_no

_YES = ("是的", "是", "对的", "对", "没错", "正确", "有", "包含", "包括", "可以", "能够", "能", "会", "存在")
_NO = (
    "不是", "不对", "否", "不正确", "错误", "没有", "未见", "未", "没", "无", "不包含", "不包括", "不可以", "不能",
    "不会", "不存在", "不",
)  # fmt: skip
_OF_THE_QUESTION = ("是否", "是不是", "有没有", "能不能", "有无")
_NORMAL = ("正常", "健康")
_NOT_NORMAL = ("不正常", "不健康", "异常")
_HEDGED = re.compile(
    "不知道|不清楚|不确定|不太|不一定|不明(?!显)|不详|未必|未知|无法|没法|办法|难以|很难|不能确定|不能判断|看不出|可能|也许|"
    "或许|不好说|说不|不够|足够|是或不是|有或没有|还是"
)
_CLAUSE_END = re.compile(r"[,，.。;；!！?？、\n]+|而是|但是|而|但")
_FILLERS = (
    *"图这那该此中里个张幅的了呢吗吧啊呀嗯滴看到见只还也都就并含具它他她",
    "不仅", "图像", "图片", "影像", "照片", "这里", "里面", "上面", "一张", "一幅", "一个", "可见", "发现", "显示",
    "明显", "任何", "确实", "的确", "患者", "病人", "回答",
)  # fmt: skip
"""Words that change nothing about what a clause says."""


def parse_chinese_yes_no(reply: str, question: Question) -> str | None:
    """Returns the option that a reply means: the first option of the question is yes, the second no.

    >>> asked = Question("q", "m", "图中有肝脏吗?", ("有", "没有"), "有", "yes_no", "p")
    >>> said = ("是的，图中有肝脏。", "不包含。", "图中没有肝脏", "Yes", "肝脏", "不确定", "图中没有脾脏")
    >>> [parse_chinese_yes_no(reply, asked) for reply in said]
    ['有', '没有', '没有', '有', None, None, None]
    """
    answer = read_answer(reply)
    if answer is None or _HEDGED.search(answer):
        return None
    known = _answer_words(question)
    if not any(word in answer for word in known):
        english = parse_yes_no(reply, replace(question, options=("yes", "no"), answer="yes"))
        if english is not None:
            return question.options[0 if english == "yes" else 1]
        return parse_choice(reply, question) if answer.isascii() else None
    asked_nos, asked = _parts(question.text.casefold(), known)
    alone, repeating = set[bool](), set[bool]()
    for clause in _CLAUSE_END.split(answer.casefold()):
        nos, rest = _parts(clause, known)
        if nos is not None and not rest:
            alone |= _verdict(nos)
        elif asked and rest.endswith(asked[-1:]) and set(rest) <= set(asked) and nos is not None:
            repeating |= _verdict(nos - (asked_nos or 0))
    told = alone or repeating
    return question.options[0 if told.pop() else 1] if len(told) == 1 else None


def _answer_words(question: Question) -> Mapping[str, bool]:
    known = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
    if question.options[0] in _NORMAL:
        known |= dict.fromkeys(_NORMAL, True) | dict.fromkeys(_NOT_NORMAL, False)
    return known


def _parts(clause: str, known: Mapping[str, bool]) -> tuple[int | None, str]:
    pattern = "|".join(sorted((*_OF_THE_QUESTION, *_FILLERS, *known), key=len, reverse=True))
    verdicts = [known[word] for word in re.findall(pattern, clause) if word in known]
    return (verdicts.count(False) if verdicts else None), re.sub(rf"{pattern}|\W", "", clause)


def _verdict(nos: int) -> set[bool]:
    return {not nos} if nos in (0, 1) else set()
