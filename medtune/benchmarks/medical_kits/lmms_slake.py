"""lmms-eval's rule for SLAKE: equality after a normalisation that knows words for yes and no in two languages.

Text in round brackets is removed. As single words only, 正常 (normal) is yes and 异常 (abnormal) is no, so that
the reply 是 (yes) to the truth 正常 is right.

Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/slake/utils.py (normalize_answer).
"""

import re
import string

_CHINESE_MARKS = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～、，。；：《》？【】（）"
_BLANKS = str.maketrans(dict.fromkeys(string.punctuation + _CHINESE_MARKS, " "))
_IN_BRACKETS = re.compile(r"\([^)]*\)|（[^）]*）")
_YES = frozenset({"yes", "yeah", "yep", "true", "是", "是的", "有", "包含", "可以", "能", "会", "正常"})
_NO = frozenset(
    {"no", "nope", "false", "否", "不是", "没有", "无", "不包含", "不能", "不会", "不可以", "不正常", "异常"}
)


def normalised(text: str) -> str:
    """Returns a text as the kit compares it.

    Example:
        >>> [normalised(text) for text in ("Left-Lung (see image).", "是的。", "X-ray", "（left lung）")]
        ['left lung', 'yes', 'xray', '']
    """
    said = " ".join(_IN_BRACKETS.sub(" ", text.strip().lower()).translate(_BLANKS).split())
    if said == "x ray":
        return "xray"
    return "yes" if said in _YES else "no" if said in _NO else said


def is_right(truth: str, reply: str) -> bool:
    """Returns whether the kit counts a reply as right.

    Example:
        >>> is_right("左侧", "左侧。"), is_right("Left", "The answer is left.")
        (True, False)
    """
    return normalised(reply) == normalised(truth)
