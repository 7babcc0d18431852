"""Notes the rule by which a parser reads a reply, while somebody asks for it; parsers pay nothing otherwise."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

Read = TypeVar("Read")
_NOTED: ContextVar[list[str] | None] = ContextVar("noted", default=None)


def is_noting() -> bool:
    """Returns whether somebody asks for the rule; a parser that remembers replies then reads this one anew."""
    return _NOTED.get() is not None


def note(rule: str) -> None:
    """Notes the rule that applies; of several, as of a statement within a mark, the last is the one that decided."""
    noted = _NOTED.get()
    if noted is not None:
        noted.append(rule)


def with_rule(read: Callable[[], Read]) -> tuple[Read, str]:
    """Returns what a parser reads, and the rule by which; "" where it noted none."""
    noted: list[str] = []
    token = _NOTED.set(noted)
    try:
        return read(), noted[-1] if noted else ""
    finally:
        _NOTED.reset(token)
