"""The contract of a bench: its module says what it measures, and its function takes a subject."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from medtune.data import catalog
from medtune.trainer.contracts.contract import Contract


@dataclass(frozen=True, slots=True)
class Opened:
    """A bench that is checked.

    Attributes:
        bench: The function that measures.
        first_line: The first line of the module's docstring.
    """

    bench: Callable[..., object]
    first_line: str


@contextmanager
def opened(name: str) -> Iterator[Opened]:
    """Gives the bench of a name; nothing is measured."""
    extension = catalog.find(catalog.BENCHES, name)
    yield Opened(cast("Callable[..., object]", extension.load()), extension.first_line())


def it_says_what_it_measures_and_takes_a_subject(found: Opened) -> Iterator[str]:
    """Complains if the module does not open with a sentence, or if the bench has other parameters than `subject`."""
    if not found.first_line.endswith((".", ":")):
        yield "the module's docstring has to open with a sentence that says which two ways are measured"
    parameters = list(inspect.signature(found.bench).parameters)
    if parameters != ["subject"]:
        yield f"`bench` takes {parameters}; it has to take `subject` alone"


CONTRACT = Contract(opened, (it_says_what_it_measures_and_takes_a_subject,))
