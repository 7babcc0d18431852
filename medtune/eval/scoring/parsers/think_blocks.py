"""Removes the thoughts that a reasoning model writes before its answer."""

import re

_CLOSED = re.compile(r"<think>.*?</think>", re.S)
_OPEN = re.compile(r"<think>.*\Z", re.S)

_NAMES = r"(?:think(?:ing)?|thought|reason(?:ing)?|analysis|scratchpad)"
_BEGIN = rf"(?:[<\[◁]{_NAMES}[>\]▷]|<\|begin_of_thought\|>)"
_END = rf"(?:[<\[◁]/{_NAMES}[>\]▷]|<\|end_of_thought\|>)"
_THOUGHT = re.compile(rf"{_BEGIN}.*?(?:{_END}|\Z)", re.S | re.I)
_UP_TO_LAST_END = re.compile(rf"\A.*{_END}", re.S | re.I)


def without_thinking(reply: str) -> str:
    """Returns the reply without its <think> blocks, an unclosed one included, and without blanks at its ends.

    Example:
        >>> without_thinking("<think>B or C?</think> C"), without_thinking("<think>B")
        ('C', '')

    Source:
        Schuture/DeepTumorVQA@1df7460, src/deeptumorvqa/eval/metrics.py (strip_think), the same behaviour.
    """
    return _OPEN.sub("", _CLOSED.sub("", reply)).strip()


def after_thoughts(reply: str) -> str:
    """Returns the part of a reply that follows the model's thoughts, without blanks at its ends.

    The names that reasoning models give their blocks are known (<think>, <thinking>, [THINK], ◁think▷ and others). The
    opening tag may be missing, because some chat templates end with it and the reply then begins with thoughts.
    Thoughts that were cut off are followed by nothing.

    Example:
        >>> [after_thoughts(reply) for reply in ("<thinking>B?</thinking> C", "B? No.</think>C", "<think>B", "C")]
        ['C', 'C', '', 'C']
    """
    return _UP_TO_LAST_END.sub("", _THOUGHT.sub("", reply)).strip()
