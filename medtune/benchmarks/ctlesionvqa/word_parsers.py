"""Reads a letter, a yes or no, or a phrase out of a reply, as the official code of v2 does and without its traps."""

import re

from medtune.eval.scoring.parsers.think_blocks import after_thoughts, without_thinking

LETTERS = "ABCD"
_STANDING_ALONE = re.compile(r"\b([A-D])\b")
_YES_OR_NO = re.compile(r"\b(?<!-)(yes|no)\b(?!-)")
_VERDICT = re.compile(r"[\s*_\"'`(]*(yes|no)\b[\s*_\"'`)]*(?:[.,;:!\n]|\Z)")


def official_letter(reply: str) -> str:
    """Returns the letter that the official code reads from a reply, or "" if it reads none.

    If a reply begins with A, B, C or D, even as the start of a word, the official code takes that letter: "Answer: C"
    gives A and "Based on HU, D" gives B. This error is kept. Otherwise the first letter that stands alone counts.

    Example:
        >>> [official_letter(reply) for reply in ("b)", "Answer: C", "I think D", "(C)", "none")]
        ['B', 'A', 'D', 'C', '']

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (extract_letter).
    """
    said = without_thinking(reply).upper()
    if said and said[0] in LETTERS:
        return said[0]
    found = _STANDING_ALONE.search(said)
    return found[1] if found else ""


def official_yes_no(text: str) -> str:
    """Returns "yes" or "no" as the official code reads it from a reply, or "" if it reads neither.

    The text should not contain the model's reasoning. The errors of the official code are kept: "Normal", "Nodule" and
    "not certain" start with "no" and give "no"; "neither yes nor no" gives "yes"; "absent" gives neither.

    Example:
        >>> [official_yes_no(text) for text in ("Yes.", "Normal liver", "unclear; no", "positive")]
        ['yes', 'no', 'no', '']

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (extract_binary).
    """
    said = text.strip().lower()
    for word in ("yes", "no"):
        if said.startswith(word):
            return word
    for word in ("yes", "no"):
        if re.search(rf"\b{word}\b", said):
            return word
    return ""


def robust_yes_no(reply: str) -> str | None:
    """Returns "yes" or "no", or None if the reply states neither or both.

    If the first word is "yes" or "no" and a punctuation mark follows ("Yes, ..."), it decides, unless the opposite word
    ends a clause too. Otherwise all occurrences of the words "yes" and "no" have to agree.

    Example:
        >>> [robust_yes_no(reply) for reply in ("Yes, no doubt", "Normal liver", "no, yes.", "There is no lesion")]
        ['yes', None, None, 'no']
    """
    said = after_thoughts(reply).lower()
    first = _VERDICT.match(said)
    verdicts = {first[1], *re.findall(r"\b(yes|no)\b\s*(?:[.,;:!\n]|\Z)", said)} if first else set(_words(said))
    return verdicts.pop() if len(verdicts) == 1 else None


def normalised(text: str) -> str:
    """Returns a phrase in lower case, without punctuation except hyphens, and with single blanks.

    Example:
        >>> normalised("  LIVER,  Segment-7 ")
        'liver segment-7'

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (normalize_text).
    """
    return re.sub(r"\s+", " ", re.sub(r"[^\w\s-]", "", text.strip().lower()))


def _words(said: str) -> list[str]:
    return _YES_OR_NO.findall(said)
