"""The checks that every extension has to pass; `medtune check` and tests/contracts run them.

A contract is a list of checks, and a function that opens an extension for them.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar, cast

from medtune.data.catalog import Kind
from medtune.data.grouping import grouped

T = TypeVar("T")
Check = Callable[[T], Iterator[str]]
"""Checks an opened extension and yields a sentence for each kind of fault, which also says how to correct it.

The name of the function states the requirement, for instance `answers_are_among_the_options`.
"""


_MODULES = {
    "benchmarks": "of_data",
    "sources": "of_data",
    "losses": "of_losses",
    "rewards": "of_rewards",
    "metrics": "of_recipes",
    "recipes": "of_recipes",
    "studies": "of_recipes",
}
"""The modules of this folder with the contracts of kinds, each under the kind's name in capitals; others: of_models."""


@dataclass(frozen=True, slots=True)
class Contract(Generic[T]):
    """The requirements on all extensions of one kind."""

    # Returns a context that opens the extension of a name. Temporary files are removed when the context ends.
    opened: Callable[[str], AbstractContextManager[T]]
    checks: tuple[Check[T], ...]  # The checks, in the order in which they are made.

    def broken(self, name: str, /) -> Iterator[str]:
        """Yields a sentence for each fault of an extension; an exception that its code raises is a fault, too."""
        try:
            with self.opened(name) as subject:
                for check in self.checks:
                    yield from _complaints(check, subject)
        except Exception as error:  # An extension may raise anything; the others are still to be checked.
            yield f"it cannot be opened: {_text(error)}"


def contract_of(kind: Kind) -> Callable[[str], Iterator[str]]:
    """Returns the function that finds the faults of an extension of a kind."""
    module = import_module(f"{__package__}.{_MODULES.get(kind.name, 'of_models')}")
    return cast("Contract[object]", getattr(module, kind.name.upper())).broken


def once(of: str, /) -> Callable[[Callable[[T], Iterator[tuple[str, str]]]], Check[T]]:
    """Returns a decorator for a check that yields (kind of the fault, complaint); one of each kind is left.

    It says the number of the others, which are that many `of`, e.g. "questions".
    """

    def decorated(check: Callable[[T], Iterator[tuple[str, str]]]) -> Check[T]:
        @functools.wraps(check)
        def said_once(subject: T) -> Iterator[str]:
            for (_, first), *others in grouped(check(subject), lambda complaint: complaint[0]).values():
                yield f"{first} (so it is with {len(others) + 1:,} {of})" if others else first

        return said_once

    return decorated


def _complaints(check: Check[T], subject: T) -> Iterator[str]:
    title = getattr(check, "__name__", repr(check)).replace("_", " ")
    try:
        for complaint in check(subject):
            yield f"{title}: {complaint}"
    except Exception as error:  # For the same reason as in `broken`.
        yield f"{title}: {_text(error)}"


def _text(error: Exception) -> str:
    said = str(error)
    return said if isinstance(error, ValueError) and said else f"{type(error).__name__}: {said}"
