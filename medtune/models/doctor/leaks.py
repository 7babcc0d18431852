"""Looks for pieces of the chat template in replies: control tokens, headers of roles, placeholders, the prompt."""

import re
from collections.abc import Iterable

ROLE = re.compile(
    r"(?im)^\s*(?:<\W?)?(?:assistant|user|human|system|model)(?:\W?>)?\s*(?::|$)|\b(?:ASSISTANT|USER|HUMAN):"
)
"""A line that holds only the name of a role, or a role with a colon, as chat templates write them."""
CONTROL = re.compile(r"<\|[\w ]+\|>|</?s>|<(?:image|video|pad|unk|start_of_turn|end_of_turn)>|\[/?INST\]|<IMG_CONTEXT>")
"""Control tokens and placeholders as published templates spell them."""
_ECHO = 24
"""The number of characters of a prompt that a reply has to repeat to count as an echo of it."""


def leaked(reply: str, prompt: str, control: Iterable[str] = ()) -> str | None:
    r"""Returns what of the template stands in a reply, in words; None where nothing does.

    Args:
        reply: The reply as it is written down.
        prompt: The text of the question.
        control: Further control tokens of the tokenizer, as text.

    Example:
        >>> leaked("B. head\nassistant\n", "Which plane?")
        "the header of a role, 'assistant'"
    """
    for token in control:
        if token.strip() and token in reply:
            return f"the control token {token!r}"
    if match := CONTROL.search(reply):
        return f"the control token {match.group()!r}"
    match = ROLE.search(reply)
    # A reply of a single word may be an answer, such as "human".
    if match and (":" in match.group() or "\n" in reply.strip()):
        return f"the header of a role, {match.group().strip()!r}"
    start = " ".join(prompt.split())[:_ECHO]
    if len(start) == _ECHO and start in " ".join(reply.split()):
        return f"the beginning of the question, {start!r}"
    return None
