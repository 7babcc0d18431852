"""A contract is a list of checks, and a way to open an extension so that the checks can look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, Protocol, TypeVar, cast

from medtune.data.catalog import Kind

T = TypeVar("T")
Check = Callable[[T], Iterator[str]]
"""Looks at an opened extension and yields a sentence for everything that is wrong, with how to mend it.

The name of the function says what is to hold, for instance `answers_are_among_the_options`.
"""


class Broken(Protocol):
    """Says what is wrong with the extension of a name, one sentence for each failure."""

    def __call__(self, name: str, /) -> Iterator[str]:
        """Yields the sentences; none where the contract is kept."""
        ...


@dataclass(frozen=True, slots=True)
class Contract(Generic[T]):
    """What the extensions of one kind have to keep.

    Attributes:
        opened: Opens the extension of a name; temporary files live as long as the context.
        checks: What is to hold, in the order in which it is checked.
    """

    opened: Callable[[str], AbstractContextManager[T]]
    checks: tuple[Check[T], ...]

    def broken(self, name: str, /) -> Iterator[str]:
        """Yields a sentence for everything that is wrong with the extension, exceptions of its code among it."""
        try:
            with self.opened(name) as subject:
                for check in self.checks:
                    yield from _said(check, subject)
        except Exception as error:  # An extension's code may raise anything, and the others are to be checked still.
            yield f"it cannot be opened: {_text(error)}"


def contract_of(kind: Kind) -> Broken:
    """Returns what checks the extensions of a kind: the `CONTRACT` of the module of the kind's name."""
    module = import_module(f"{__package__}.{kind.name}")
    return cast("Contract[object]", module.CONTRACT).broken


def _said(check: Check[T], subject: T) -> Iterator[str]:
    title = getattr(check, "__name__", repr(check)).replace("_", " ")
    try:
        for complaint in check(subject):
            yield f"{title}: {complaint}"
    except Exception as error:  # As in `broken`.
        yield f"{title}: {_text(error)}"


def _text(error: Exception) -> str:
    said = str(error)
    return said if isinstance(error, ValueError) and said else f"{type(error).__name__}: {said}"
