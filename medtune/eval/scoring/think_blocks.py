"""Removes the <think> blocks that a reasoning model writes before its answer."""

from __future__ import annotations

import re

_CLOSED = re.compile(r"<think>.*?</think>", re.S)
_OPEN = re.compile(r"<think>.*\Z", re.S)


def without_thinking(reply: str) -> str:
    """Returns the reply without its <think> blocks, an unclosed one included, and without blanks at its ends.

    Example:
        >>> without_thinking("<think>B or C?</think> C"), without_thinking("<think>B")
        ('C', '')

    Source:
        Schuture/DeepTumorVQA@1df7460, src/deeptumorvqa/eval/metrics.py (strip_think), the same behaviour.
    """
    return _OPEN.sub("", _CLOSED.sub("", reply)).strip()
