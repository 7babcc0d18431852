"""LLaVA-Med's two rules: recall of words for open questions, and the truth inside of the reply for closed ones.

`run_eval` counts a closed reply only if "yes" or "no" stands somewhere in it, so that other closed answers are always
wrong; `run_eval_batch` dropped that condition. Both normalise texts as VQA's own evaluation does.

Source: microsoft/LLaVA-Med@b9a98a7 (tag v1.0.0), llava/eval/run_eval.py, run_eval_batch.py,
eval_metrics/evaluate_metrics.py and eval_metrics/glossary.py.

English contractions that lost an apostrophe, as VQA's evaluation repairs them: "isnt" becomes "isn't".

Source: the list of VQA's evaluation code, which microsoft/LLaVA-Med@b9a98a7 carries in
llava/eval/eval_metrics/glossary.py. Entries that begin with a capital letter are left out, as they match nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from medtune.benchmarks.medical_kits.sentence_bleu import sentence_bleu

_NOT = "ai are ca could did does do had has have is might must need ought sha should was were wo would"
_NOT_HAVE = "could had might should would"
_WOULD_HAVE = "he it she somebody someone something there they we who you"
_ENDINGS = {
    "d": "he how it someone something there they where who you",
    "ll": "how it somebody someone something they what who why y'all you",
    "s": "he how somebody someone that there what when where who why",
    "re": "there they what why you",
    "ve": "could might must not should they we what where who would you",
}
_ODD = {
    "maam": "ma'am", "oclock": "o'clock", "ow's'at": "'ow's'at", "'ows'at": "'ow's'at", "'ow'sat": "'ow's'at",
    "somebody'd": "somebodyd", "twas": "'twas", "yall": "y'all", "yall'll": "y'all'll", "yall'd've": "y'all'd've",
    "y'alld've": "y'all'd've", "y'all'dve": "y'all'd've",
}  # fmt: skip

_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = frozenset({"a", "an", "the"})
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: str(value) for value, word in enumerate(_DIGITS)} | {"none": "0"}
_COMMA_IN_NUMBER = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
_KEPT_TEXTS = 50_000
_MOST_STOPS = 32
"""How many full stops are removed: the code hands re.UNICODE, which is 32, to `sub` in the place of the count."""


def _repairs() -> dict[str, str]:
    found = {f"{word}nt": f"{word}n't" for word in _NOT.split()}
    for word in _NOT_HAVE.split():
        found |= dict.fromkeys((f"{word}nt've", f"{word}n'tve"), f"{word}n't've")
    for word in _WOULD_HAVE.split():
        found |= dict.fromkeys((f"{word}d've", f"{word}'dve"), f"{word}'d've")
    for ending, words in _ENDINGS.items():
        found |= {f"{word}{ending}": f"{word}'{ending}" for word in words.split()}
    return found | _ODD


CONTRACTIONS = _repairs()
"""The contraction with its apostrophe for each word that lacks one."""


@lru_cache(maxsize=_KEPT_TEXTS)
def normalised(text: str) -> str:
    """Returns a text as the kit compares it: without articles, marks and full stops, with numbers as digits.

    A mark becomes a blank, or nothing if it touches a blank anywhere in the text or if the text has a number such as
    1,200.

    >>> normalised("The left-sided lung."), normalised("Two (2) isnt none"), normalised("1,200 ml-units")
    ('left sided lung', "2 2 isn't 0", '1200 mlunits')
    """
    said, has_number = text, _COMMA_IN_NUMBER.search(text) is not None
    for mark in _MARKS:
        goes = has_number or f"{mark} " in text or f" {mark}" in text
        said = said.replace(mark, "" if goes else " ")
    words = (_NUMBERS.get(word, word) for word in _FULL_STOP.sub("", said, count=_MOST_STOPS).lower().split())
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES).replace(",", "")


class OpenScores(NamedTuple):
    """The kit's numbers of one reply to an open question, 0 to 1."""

    exact_match: float  # The number of true words that the reply has, over the number of its words: a precision.
    f1: float  # The harmonic mean of precision and recall.
    precision: float  # The share of the reply's words that are in the truth.
    # The reply's words that are in the truth, over these and the true words that it lacks; a word counts as often as
    # the reply repeats it.
    recall: float


def open_scores(truth: str, reply: str) -> OpenScores:
    """Returns the kit's numbers of one reply to an open question.

    >>> open_scores("3", "3 3")
    OpenScores(exact_match=0.5, f1=1.0, precision=1.0, recall=1.0)
    >>> round(open_scores("left lung", "The left side").recall, 3)
    0.5
    """
    # The kit normalises each text twice, which is not the same as once: "-- x" changes again.
    said = Counter(normalised(normalised(reply.lower())).split())
    return word_scores(Counter(normalised(normalised(truth.lower())).split()), said)


def word_scores(wanted: Counter[str], said: Counter[str]) -> OpenScores:
    """Returns the numbers of a reply from the words of the truth and its own."""
    if not said:
        return OpenScores(0.0, 0.0, 0.0, 0.0)
    exact_match = sum(word in said for word in wanted) / said.total()
    hits = sum(count for word, count in said.items() if word in wanted)
    if not hits:
        return OpenScores(exact_match, 0.0, 0.0, 0.0)
    precision = hits / said.total()
    recall = hits / (hits + sum(count for word, count in wanted.items() if word not in said))
    return OpenScores(exact_match, 2 * precision * recall / (precision + recall), precision, recall)


def bleus(truth: str, reply: str) -> tuple[float, float, float, float]:
    """Returns the kit's "bleu_score", which is BLEU-4, and its precisions of single, double and triple words."""
    said, wanted = normalised(reply.lower()).split(), normalised(truth.lower()).split()
    four, one, two, three = [0.25] * 4, [1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]
    return (
        sentence_bleu(said, wanted, four),
        sentence_bleu(said, wanted, one),
        sentence_bleu(said, wanted, two),
        sentence_bleu(said, wanted, three),
    )


def nearest_candidate_rule(candidates: Sequence[str]) -> Callable[[str, str], bool]:
    """Returns a function of (truth, reply): whether the candidate nearest to the reply is the truth (run_eval).

    Near is a candidate of whose words the reply has a large share; of several the first counts, and a reply without any
    of their words is nearest to the first candidate.

    >>> is_nearest = nearest_candidate_rule(["liver", "left lung", "lung"])
    >>> is_nearest("left lung", "the left lung is dark"), is_nearest("lung", "lung"), is_nearest("liver", "")
    (True, True, True)
    """
    plain = [normalised(candidate) for candidate in candidates]
    words = [set(each.lower().split()) for each in plain]
    holders: dict[str, list[int]] = {}
    for number, its_words in enumerate(words):
        for word in its_words:
            holders.setdefault(word, []).append(number)

    def is_nearest(truth: str, reply: str) -> bool:
        said = set(normalised(normalised(reply.lower())).split())
        shared = Counter(number for word in said for number in holders.get(word, ()))
        nearest = min(shared, key=lambda number: (-shared[number] / len(words[number]), number), default=0)
        return plain[nearest] == normalised(normalised(truth.lower()))

    return is_nearest


def has_truth(truth: str, reply: str) -> bool:
    """Returns whether the true answer stands somewhere in the reply, even inside of another word (run_eval_batch).

    >>> has_truth("no", "Abnormal"), has_truth("no", "No, it is fine."), has_truth("Left lung", "left")
    (True, True, False)
    """
    return normalised(truth.lower()) in normalised(reply.lower())


def has_truth_and_yes_or_no(truth: str, reply: str) -> bool:
    """Returns whether the reply holds the true answer and also "yes" or "no", as letters of any word (run_eval).

    >>> has_truth_and_yes_or_no("MRI", "MRI"), has_truth_and_yes_or_no("no", "I do not know")
    (False, True)
    """
    said = normalised(reply.lower())
    return ("yes" in said or "no" in said) and has_truth(truth, reply)
