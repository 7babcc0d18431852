"""lmms-eval's rules for MMMU, whose letters need no blank in front of them, and whose open answers are never right.

Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py:16-68 and
lmms_eval/tasks/mmmu/utils.py:176-195, 293-360.
"""

from collections.abc import Mapping, Sequence

from medtune.benchmarks.medical_kits.mmmu_official import (
    RANDOM,
    SHORT_REPLY_WORDS,
    first_largest,
    open_is_right,
    open_pieces,
    without_edges,
)


def letter(reply: str, options: Mapping[str, str]) -> str:
    """Returns the letter that lmms-eval reads from a reply, or "random" where it draws one.

    Brackets count first, then a letter in front of a blank, even at the end of a word, then a letter in front of a full
    stop. Of several letters the one that stands last between blanks counts; where none does, the first option's.

    Example:
        >>> options = {"A": "cyst", "B": "tumour", "C": "none"}
        >>> [letter(reply, options) for reply in ("B. tumour", "mri OF A scan", "B.C. or A.D.", "b")]
        ['B', 'A', 'A', 'random']
    """
    text = f" {without_edges(reply)} "
    bracketed = {sign: text.rfind(f"({sign})") for sign in options if f"({sign})" in text}
    if bracketed:
        return first_largest(bracketed)
    for mark in (" ", "."):
        places = {sign: text.rfind(f" {sign} ") for sign in options if f"{sign}{mark}" in text}
        if places:
            return first_largest(places)
    if len(text.split()) > SHORT_REPLY_WORDS:
        words = text.lower()
        named = {sign: words.rfind(option.lower()) for sign, option in options.items() if option.lower() in words}
        if named:
            return first_largest(named)
    return RANDOM


def open_accuracies(truths: str | Sequence[str], reply: str) -> list[float]:
    """Returns the values that the score of an open answer can take, which depends on the order of a set of texts.

    The code keeps one piece of the answer, as text, and then compares the truth with each of its characters. No truth
    is a single character after the rule has put a blank beside it.

    Example:
        >>> open_accuracies("B", "B"), open_accuracies("left lung", "left lung")
        ([0.0], [0.0])
    """
    return sorted({float(open_is_right(truths, str(piece))) for piece in open_pieces(reply)})
