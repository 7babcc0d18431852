"""Looks for pieces of the chat template in replies: control tokens, headers of roles, placeholders, the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking, answered
from medtune.models.doctor.asked import AskedQuestion, end_ids
from medtune.models.doctor.check import Check, Finding, checked

ROLE = re.compile(
    r"(?im)^\s*(?:<\W?)?(?:assistant|user|human|system|model)(?:\W?>)?\s*(?::|$)|\b(?:ASSISTANT|USER|HUMAN):"
)
"""A line that holds only the name of a role, or a role with a colon, as chat templates write them."""
CONTROL = re.compile(r"<\|[\w ]+\|>|</?s>|<(?:image|video|pad|unk|start_of_turn|end_of_turn)>|\[/?INST\]|<IMG_CONTEXT>")
"""Control tokens and placeholders as published templates spell them."""
_ECHO = 24
"""The number of characters of a prompt that a reply has to repeat to count as an echo of it."""


def leak_check(assembled: Assembled, questions: Sequence[AskedQuestion], asking: Asking) -> Check:
    """Returns the check of the replies that an evaluation would write down."""
    return checked("template leaks", lambda: _leaks(assembled, questions, asking))


def _leaks(assembled: Assembled, questions: Sequence[AskedQuestion], asking: Asking) -> Finding:
    found = answered(assembled, questions, asking, reading="generation")
    ends = assembled.family.pieces(end_ids(assembled.family))
    for asked in questions:
        text = found[asked.question.id].text or ""
        if leak := leaked(text, asked.prompt.text, ends):
            return False, f"{asked.name}: the reply {text[:80]!r} holds {leak}"
    return True, f"no piece of the template in {len(questions)} replies"


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
