"""Compares names of layers with regular expressions from a recipe or an adapter, which a stranger may have written.

Python's own `re` works on a hostile expression for hours, and nothing but the end of the process stops it. The library
`regex` reads the same expressions and takes a limit of time.
"""

import time
from functools import lru_cache

import regex

LIMIT_S = 2.0
"""The time that one expression may take in a process, over all names (our own choice; real ones take milliseconds)."""
_NOTICED_S = 1e-3
_LONGEST = 1_000_000


class NamePattern:
    """A regular expression with the time that is left to it."""

    def __init__(self, expression: str, field: str) -> None:
        self._said = f"{field}: {expression[:80]!r}{' ...' if len(expression) > 80 else ''}"
        if len(expression) > _LONGEST:
            raise ValueError(f"{self._said} has {len(expression):,} characters; name the layers in a list")
        try:
            self._pattern = regex.compile(expression)
        except (regex.error, RecursionError, OverflowError, MemoryError) as error:
            raise ValueError(f"{self._said} is no regular expression ({str(error) or type(error).__name__})") from error
        self._left_s = LIMIT_S

    def fits(self, name: str) -> bool:
        """Returns whether the expression fits the whole name.

        Raises:
            ValueError: The expression has taken longer than `LIMIT_S`.
        """
        began = time.perf_counter()
        try:
            found = self._pattern.fullmatch(name, timeout=max(self._left_s, 1e-3))
        except TimeoutError as error:
            raise ValueError(
                f"{self._said} takes longer than {LIMIT_S:g} s to be compared with the names of layers. Such an "
                "expression repeats what repeats already; write it without, or name the layers in a list"
            ) from error
        took_s = time.perf_counter() - began
        if took_s > _NOTICED_S:
            self._left_s -= took_s
        return found is not None


_pattern = lru_cache(maxsize=1024)(NamePattern)


def fits(expression: str, name: str, *, field: str) -> bool:
    """Returns whether a regular expression fits the whole name; `field` names it in errors."""
    return _pattern(expression, field).fits(name)
