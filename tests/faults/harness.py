"""Gives a reader or a command broken inputs, and counts how each ends: refused in a clear line, or by a fault.

A generator yields inputs from a seed. Each batch of them is tried in a forked process, so that neither a signal nor
what an input leaves behind reaches the tests.
"""

import contextlib
import io
import itertools
import random
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.ranks import run_ranks

LIMIT_S = 20
"""What takes longer hangs."""
_MEMORY_BYTES = 8 << 30
"""How much more memory a batch may take than it began with."""
PLANTED = "Erika-Mustermann-0815"
"""A name that no message may show."""
REFUSALS = (ValueError, FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError)
_BATCH = 50


class Broken(NamedTuple):
    """An input that is broken, or may be."""

    name: str
    read: Callable[[], object]
    where: Path | str = ""  # What a refusal has to name.
    is_certain: bool = False  # Whether it is broken for sure, so that taking it is a fault.


Generator = Callable[[random.Random, Path], Iterator[Broken]]
"""A function that yields inputs without end, from a source of random numbers and an empty folder."""


@dataclass
class Tally:
    """How many inputs there were, how many of them ended by which fault, and what the first of these said."""

    inputs: int = 0
    tracebacks: int = 0
    hangs: int = 0
    silent: int = 0
    leaks: int = 0
    signals: int = 0
    found: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.inputs} inputs, {self.tracebacks} tracebacks, {self.hangs} hangs, {self.silent} silent, "
            f"{self.leaks} leaks, {self.signals} signals"
        )

    @property
    def faults(self) -> int:
        return self.tracebacks + self.hangs + self.silent + self.leaks + self.signals

    def add(self, other: "Tally") -> None:
        for name in ("inputs", "tracebacks", "hangs", "silent", "leaks", "signals", "found"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _HangError(BaseException):
    """The time of an input is over; no reader catches it."""


def tried(generator: Generator, folder: Path, *, seed: int, number: int) -> Tally:
    """Returns how so many inputs of a generator ended."""
    whole = Tally()
    for first in range(0, number, _BATCH):
        count, place = min(_BATCH, number - first), folder / f"batch_{seed}_{first}"
        try:
            (tally,) = run_ranks(1, _batch, generator, place, seed + first, count, timeout_s=LIMIT_S * (count + 2))
        except AssertionError as error:
            tally = Tally(inputs=count, signals=1, found=[f"seed {seed + first}: {error}"])
        whole.add(tally)
    return whole


def _batch(rank: int, world_size: int, generator: Generator, folder: Path, seed: int, number: int) -> Tally:
    folder.mkdir(parents=True)
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGALRM, _over)
    tally = Tally()
    for broken in itertools.islice(generator(random.Random(seed), folder), number):
        tally.inputs += 1
        _count(broken, tally)
    return tally


def _over(*_: object) -> None:
    raise _HangError


def _count(broken: Broken, tally: Tally) -> None:
    said, printed = "", io.StringIO()
    signal.alarm(LIMIT_S)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            broken.read()
        fault = "silent" if broken.is_certain else ""
    except REFUSALS as error:
        said = str(error)
        fault = "" if str(broken.where) in said and not said.startswith("[Errno") else "tracebacks"
    except _HangError:
        fault = "hangs"
    except Exception:
        said, fault = traceback.format_exc(), "tracebacks"
    finally:
        signal.alarm(0)
    if PLANTED in said + printed.getvalue():
        fault = "leaks"
    if fault:
        setattr(tally, fault, getattr(tally, fault) + 1)
        tally.found.append(f"{fault}: {broken.name}: {said[-600:]}")
