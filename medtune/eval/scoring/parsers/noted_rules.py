"""Notes the rule by which a parser reads a reply, while somebody asks for it; parsers pay nothing otherwise."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

Read = TypeVar("Read")
NOTHING = ""
_NOTED: ContextVar[list[str] | None] = ContextVar("noted", default=None)


def is_noting() -> bool:
    """Returns whether somebody asks for the rule; a parser that remembers replies then reads this one anew."""
    return _NOTED.get() is not None


def note(rule: str) -> None:
    """Notes the rule that applies; of several, as of a statement within a mark, the last is the one that decided."""
    noted = _NOTED.get()
    if noted is not None:
        noted.append(rule)


def note_nothing_found() -> None:
    """Notes that the rules noted before led to no answer, so that what is read after them is read in another way."""
    note(NOTHING)


def with_rule(read: Callable[[], Read]) -> tuple[Read, str]:
    """Returns what a parser reads, and the rule by which; "" where it noted none.

    Where it reads None, the rule is the last that applied.
    """
    noted: list[str] = []
    token = _NOTED.set(noted)
    try:
        found = read()
    finally:
        _NOTED.reset(token)
    applied = noted[-1:] if found is not None else [rule for rule in noted if rule != NOTHING][-1:]
    return found, applied[0] if applied else NOTHING
