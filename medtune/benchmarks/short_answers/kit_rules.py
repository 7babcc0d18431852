"""The rules of other kits for short answers, as rows that stand beside medtune's own scores.

Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/slake/utils.py (normalize_answer);
UCSD-AI4H/PathVQA@dd51804, Evaluation script/evaluation_script.py and utils.py; MedEvalKit and LLaVA-Med as
`medical_kits` says.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from medtune.benchmarks.medical_kits import llava_med
from medtune.benchmarks.medical_kits.choice_rules import MEDEVALKIT
from medtune.benchmarks.medical_kits.medevalkit_sets import (
    JUDGE_COUNTINGS,
    Counted,
    CountRow,
    JudgeCounting,
    SetRow,
    judged_totals,
    printed_totals,
)
from medtune.benchmarks.short_answers.released_answers import is_released_as_closed, truth_as_released
from medtune.data.types import Question
from medtune.eval.scoring.reply_rules import ReplyRule

_CHINESE_MARKS = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～、，。；：《》？【】（）"
_BLANKS = str.maketrans(dict.fromkeys(string.punctuation + _CHINESE_MARKS, " "))
_IN_BRACKETS = re.compile(r"\([^)]*\)|（[^）]*）")
_YES = frozenset({"yes", "yeah", "yep", "true", "是", "是的", "有", "包含", "可以", "能", "会", "正常"})
_NO = frozenset(
    {"no", "nope", "false", "否", "不是", "没有", "无", "不包含", "不能", "不会", "不可以", "不正常", "异常"}
)

_OTHERS = re.compile(r"[^a-zA-Z ]")
_KEPT_ROWS = 20_000
Replies = Sequence[tuple[Question, str]]
_COPIES = {
    "damo": MEDEVALKIT,
    "blackkiring": "blackkiring/MedEvalKit@9c443c2",
    "chenz53": "chenz53/MedEvalKit@9f20061",
    "ceilingFan456": "ceilingFan456/MedEvalKit@b4c80aa",
}
_LLAVA = "microsoft/LLaVA-Med@b9a98a7, llava/eval"


def normalised(text: str) -> str:
    """Returns a text as lmms-eval's rule for SLAKE compares it, which knows words for yes and no in two languages.

    Text in round brackets is removed. As single words only, 正常 (normal) is yes and 异常 (abnormal) is no, so that the
    reply 是 (yes) to the truth 正常 is right.

    >>> [normalised(text) for text in ("Left-Lung (see image).", "是的。", "X-ray", "（left lung）")]
    ['left lung', 'yes', 'xray', '']
    """
    said = " ".join(_IN_BRACKETS.sub(" ", text.strip().lower()).translate(_BLANKS).split())
    if said == "x ray":
        return "xray"
    return "yes" if said in _YES else "no" if said in _NO else said


def is_right(truth: str, reply: str) -> bool:
    """Returns whether lmms-eval's rule for SLAKE counts a reply as right.

    >>> is_right("左侧", "左侧。"), is_right("Left", "The answer is left.")
    (True, False)
    """
    return normalised(reply) == normalised(truth)


def exact_match(truth: str, reply: str) -> float | None:
    """Returns PathVQA's "exact match": the number of true words that the reply has, over the number of its words.

    Only letters count: digits and hyphens are deleted, so that "x-ray" is the word "xray" and "3" is empty. For a reply
    without letters the code returns a sentence in the place of a number, and its BLEU stops; here both are None.

    >>> exact_match("left lung", "the left lung"), exact_match("3", "3")
    (0.6666666666666666, None)
    """
    said = _words(reply)
    return llava_med.word_scores(_words(truth), said).exact_match if said else None


def f1(truth: str, reply: str) -> float | None:
    """Returns F1 of words, where a hit counts as often as the reply repeats it; None for a reply without letters.

    >>> f1("left lung", "the left lung"), f1("left lung", "right")
    (0.8, 0.0)
    """
    said = _words(reply)
    return llava_med.word_scores(_words(truth), said).f1 if said else None


def bleu1(truth: str, reply: str) -> float | None:
    """Returns BLEU-1, whose brevity penalty compares numbers of characters; None for a reply without letters.

    Without any common word it is the brevity penalty alone, as the code leaves out precisions of 0.

    >>> bleu1("left lung", "left lung"), bleu1("left lung", "something else")
    (1.0, 1.0)
    """
    said, wanted = _words(reply), _words(truth)
    if not said:
        return None
    brevity = 1.0 if len(reply) > len(truth) else math.exp(1 - len(truth) / len(reply))
    matches = (said & wanted).total()
    return brevity * (matches / said.total() if matches else 1.0)


def _words(text: str) -> Counter[str]:
    return Counter(_OTHERS.sub("", text).lower().split())


def medevalkit_rules(set_name: str, count: CountRow, file: str, errs: str) -> dict[str, ReplyRule]:
    """Returns MedEvalKit's rule without a judge, and what it and its copies would print with one.

    Args:
        set_name: The kit's set, by its name in `JUDGE_COUNTINGS`.
        errs: The end of the sentence that says how the rule differs, for this set.
    """
    # The kit and its copies count the same rows alike, and differ in what they make of them.
    count_once = lru_cache(maxsize=_KEPT_ROWS)(count)

    def counted(replies: Replies) -> list[Counted]:
        return [count_once(_row(question, reply)) for question, reply in replies]

    rules = {
        "medevalkit": ReplyRule(
            title="MedEvalKit, no judge",
            source=f"{MEDEVALKIT}, {file} and utils/utils.py",
            differs=(
                "An open answer has to equal the truth to the last full stop, the printed open acc is divided by the "
                "number of questions twice, the printed recall is the precision, an empty reply stops the kit, and "
                f"{errs}."
            ),
            score=lambda replies: _medevalkit(counted(replies)),
        )
    }
    for copy, countings in JUDGE_COUNTINGS.items():
        rules[f"medevalkit_judged_{copy}"] = ReplyRule(
            title=f"MedEvalKit with a judge, {copy}",
            source=f"{_COPIES[copy]}, {file}",
            differs=_of_counting(countings[set_name]),
            score=_judged(counted, countings[set_name]),
        )
    return rules


def llava_med_rules() -> dict[str, ReplyRule]:
    """Returns the rules of LLaVA-Med's two scripts."""
    return {
        "llava_med_run_eval": ReplyRule(
            title="LLaVA-Med, run_eval",
            source=f"{_LLAVA}/run_eval.py",
            differs=(
                "A closed answer is right if it stands anywhere in a reply that also holds the letters yes or no, so "
                "that left or MRI is never right and normal is a no; open accuracy asks for the nearest candidate, and "
                "the candidates, which are not released, are here the true open answers."
            ),
            score=lambda replies: _llava_med(replies, llava_med.has_truth_and_yes_or_no, _nearest(replies)),
        ),
        "llava_med_batch": ReplyRule(
            title="LLaVA-Med, run_eval_batch",
            source=f"{_LLAVA}/run_eval_batch.py",
            differs=(
                "An answer, closed or open, is right if the truth stands anywhere in the reply, so that normal is a no "
                "and yes and no is right for both; the recall of open answers rewards long replies."
            ),
            score=lambda replies: _llava_med(replies, llava_med.has_truth, llava_med.has_truth),
        ),
    }


def lmms_rule() -> dict[str, ReplyRule]:
    return {
        "lmms_eval": ReplyRule(
            title="lmms-eval",
            source="EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/slake/utils.py",
            differs=(
                "The whole reply has to equal the truth, so that a sentence is wrong, text in round brackets does not "
                "count, and 正常 (normal) equals 是 (yes)."
            ),
            score=lambda replies: (
                _shares(replies, is_right, is_right)
                | {"accuracy": _mean([is_right(*_pair(question, said)) for question, said in replies])}
            ),
        )
    }


def pathvqa_rule() -> dict[str, ReplyRule]:
    """Returns the functions of PathVQA's own repository."""
    return {
        "pathvqa_official": ReplyRule(
            title="PathVQA's own functions",
            source="UCSD-AI4H/PathVQA@dd51804, Evaluation script/evaluation_script.py",
            differs=(
                "Only letters count, so that 3 is no answer, exact match is in truth a precision of words, and a reply "
                "without letters, for which the code returns a sentence or stops, counts 0 here."
            ),
            score=_pathvqa,
        )
    }


def _medevalkit(rows: Sequence[Counted]) -> dict[str, float]:
    totals = printed_totals(rows)
    free, closed = totals["open"], totals["close"]
    found = {"accuracy": totals["total metrics"]["acc"]} if rows else {}
    if "acc" in closed:
        found["closed_accuracy"] = closed["acc"]
    if "acc" in free:
        found |= {
            "exact_match": free["em"],
            "printed_open_acc": free["acc"],
            "printed_recall": free["recall"],
            "rouge_l": free["rougel"],
        }
    return found | {"stopping_replies": float(sum(row.stops for row in rows))}


def _judged(
    counted: Callable[[Replies], list[Counted]], counting: JudgeCounting | None
) -> Callable[[Replies], Mapping[str, float]]:
    def score(replies: Replies) -> Mapping[str, float]:
        rows = counted(replies)
        if counting is None or not rows:
            return {}
        found = {}
        for name, verdict in (("if_judge_rejects_all", False), ("if_judge_accepts_all", True)):
            found[name] = judged_totals(rows, counting, [verdict] * len(rows)).total_right / len(rows)
        return found

    return score


def _of_counting(counting: JudgeCounting | None) -> str:
    if counting is None:
        return "With a judge it stops with TypeError."
    if counting.keeps_total:
        return "It adds the judge's hits to a total that it does not reset, so that an answer can count twice."
    if counting.judges_closed and counting.keeps_closed:
        return "It judges closed answers too and adds their hits to the exact ones, so that they can count twice."
    if counting.judges_closed:
        return "It has the judge decide closed answers as well as open ones."
    if not counting.keeps_closed:
        return "It sets the right closed answers to 0 before the judge's hits are added, so that they are lost."
    return "The judge decides open answers, and closed ones are counted as without it."


def _llava_med(
    replies: Replies, closed_rule: Callable[[str, str], bool], open_rule: Callable[[str, str], bool]
) -> dict[str, float]:
    free = [_pair(question, reply) for question, reply in replies if not is_released_as_closed(question)]
    closed = [_pair(question, reply) for question, reply in replies if is_released_as_closed(question)]
    found = {"closed_accuracy": _mean([closed_rule(*pair) for pair in closed])} if closed else {}
    if free:
        scores = [llava_med.open_scores(*pair) for pair in free]
        found |= {
            "open_recall": _mean([each.recall for each in scores]),
            "token_f1": _mean([each.f1 for each in scores]),
            "word_precision": _mean([each.exact_match for each in scores]),
            "open_accuracy": _mean([open_rule(*pair) for pair in free]),
            "bleu1": _mean([llava_med.bleus(*pair)[1] for pair in free]),
        }
    return found


def _nearest(replies: Replies) -> Callable[[str, str], bool]:
    open_truths = (truth_as_released(question) for question, _ in replies if not is_released_as_closed(question))
    return llava_med.nearest_candidate_rule([*dict.fromkeys(open_truths)])


def _shares(
    replies: Replies, closed_rule: Callable[[str, str], bool], open_rule: Callable[[str, str], bool]
) -> dict[str, float]:
    parts = {
        "closed_accuracy": [
            closed_rule(*_pair(question, said)) for question, said in replies if is_released_as_closed(question)
        ],
        "exact_match": [
            open_rule(*_pair(question, said)) for question, said in replies if not is_released_as_closed(question)
        ],
    }
    return {name: _mean(hits) for name, hits in parts.items() if hits}


def _pathvqa(replies: Replies) -> dict[str, float]:
    free = [_pair(question, reply) for question, reply in replies if not is_released_as_closed(question)]
    if not free:
        return {}
    return {
        "word_precision": _mean([exact_match(*pair) or 0.0 for pair in free]),
        "token_f1": _mean([f1(*pair) or 0.0 for pair in free]),
        "bleu1": _mean([bleu1(*pair) or 0.0 for pair in free]),
    }


def _pair(question: Question, reply: str) -> tuple[str, str]:
    return truth_as_released(question), reply


def _row(question: Question, reply: str) -> SetRow:
    return SetRow(truth_as_released(question), reply, "CLOSED" if is_released_as_closed(question) else "OPEN")


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
