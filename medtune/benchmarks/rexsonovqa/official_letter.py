"""Reads the chosen letter from a reply: as the official code does, and without its errors."""

from __future__ import annotations

import re

from medtune.data.types import Question

LETTERS = "ABCD"
# The patterns are tried in this order; each may match anywhere in the reply.
_OFFICIAL = (
    re.compile(r"Answer:\s*\*?([A-D])\b", re.I),
    re.compile(r"^\s*\*?([A-D])[.)]", re.M),
    re.compile(r"(?:answer|option) is\s*\*?([A-D])\b", re.I),
)


def official_letter(reply: str) -> str:
    """Returns the letter that the official extractor takes from a reply, or "" for none.

    The official pipeline strips a reply before it extracts, which `official` does and this function does not.

    The errors of the official extractor are kept. If no pattern matches, the first character decides, so "Answer - B"
    and "Answer: (B)" give A, "Cannot be determined" gives C, and "Because" gives B, but " c", "**C**" and "(B)" give no
    letter.

    >>> [official_letter(reply) for reply in ("Answer: c", "D) lower", "Answer - B", "Cannot say", "(B)")]
    ['C', 'D', 'A', 'C', '']

    Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py (extract_mcq_answer).
    """
    for pattern in _OFFICIAL:
        found = pattern.search(reply)
        if found:
            return found[1].upper()
    first = reply[:1].upper()
    return first if first and first in LETTERS else ""


def official_option(reply: str, question: Question) -> str | None:
    """Returns the option whose letter the official pipeline reads, or None; "A" is the first option shown.

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py (process_question_file), which strips the reply first.
    """
    letter = official_letter(reply.strip())
    index = LETTERS.index(letter) if letter else len(question.options)
    return question.options[index] if index < len(question.options) else None
