"""PathVQA's own functions: "exact match" is a precision of words, and only letters count.

Digits and hyphens are deleted, so that "x-ray" is the word "xray" and "3" is empty. For a reply without letters the
code returns a sentence in the place of a number, and its BLEU stops; here both are None.

Source: UCSD-AI4H/PathVQA@dd51804, Evaluation script/evaluation_script.py and utils.py.
"""

import math
import re
from collections import Counter

_OTHERS = re.compile(r"[^a-zA-Z ]")


def exact_match(truth: str, reply: str) -> float | None:
    """Returns the number of true words that the reply has, over the number of its words; None for one without letters.

    Example:
        >>> exact_match("left lung", "the left lung"), exact_match("3", "3")
        (0.6666666666666666, None)
    """
    said, wanted = _words(reply), _words(truth)
    return sum(word in said for word in wanted) / said.total() if said else None


def f1(truth: str, reply: str) -> float | None:
    """Returns F1 of words, where a hit counts as often as the reply repeats it; None for a reply without letters.

    Example:
        >>> f1("left lung", "the left lung"), f1("left lung", "right")
        (0.8, 0.0)
    """
    said, wanted = _words(reply), _words(truth)
    if not said:
        return None
    hits = sum(count for word, count in said.items() if word in wanted)
    if not hits:
        return 0.0
    precision = hits / said.total()
    recall = hits / (hits + sum(count for word, count in wanted.items() if word not in said))
    return 2 * precision * recall / (precision + recall)


def bleu1(truth: str, reply: str) -> float | None:
    """Returns BLEU-1, whose brevity penalty compares numbers of characters; None for a reply without letters.

    Without any common word it is the brevity penalty alone, as the code leaves out precisions of 0.

    Example:
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
