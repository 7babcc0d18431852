"""Shows how far a long piece of work is and how long it will take: a bar in a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from typing import NoReturn, Protocol, TypeVar

from tqdm import tqdm

LINE_EVERY_S = 30.0
"""Seconds between two lines where no terminal shows a bar (our own choice)."""
_BAR = "{desc} {bar} {n_fmt} of {total_fmt} {unit}, {remaining} left{postfix}"
_COUNT = "{desc} {n_fmt} {unit}{postfix}"
Piece = TypeVar("Piece")


class OnDone(Protocol):
    """Notes that `done` of `total` pieces are done, and says something of the work in a few words.

    A `total` of 0 is one that nobody knows yet.
    """

    def __call__(self, done: int, total: int, said: str = "", /) -> None: ...


@contextlib.contextmanager
def progress(title: str, *, unit: str, shown: bool = True) -> Iterator[OnDone]:
    """Shows the progress of the block on stderr.

    A bar is gone when the block ends; work that takes less than LINE_EVERY_S writes no line.
    """
    if not shown:
        yield lambda done, total, said="": None
    elif not sys.stderr.isatty():
        yield _lines(title, unit)
    else:
        with contextlib.ExitStack() as opened:
            bars: list[tqdm[NoReturn]] = []

            def on_done(done: int, total: int, said: str = "") -> None:
                # Before its work is counted a bar would be empty, and what was done before says nothing about the time.
                bar = bars[0] if bars else opened.enter_context(_bar(title, unit, done, total))
                bars[:] = [bar]
                bar.set_postfix_str(said, refresh=False)
                bar.update(done - bar.n)

            yield on_done


def counted(pieces: Iterable[Piece], title: str, *, unit: str) -> Iterator[Piece]:
    """Yields the pieces, and shows how many there were so far."""
    with progress(title, unit=unit) as on_done:
        for number, piece in enumerate(pieces):
            on_done(number, 0)
            yield piece


def _bar(title: str, unit: str, done: int, total: int) -> "tqdm[NoReturn]":
    return tqdm(
        desc=title,
        unit=unit,
        initial=done,
        total=total or None,
        bar_format=_BAR if total else _COUNT,
        dynamic_ncols=True,
        leave=False,
        mininterval=0.5,
    )


def _lines(title: str, unit: str) -> OnDone:
    began_s = last_s = time.monotonic()
    first: list[int] = []

    def on_done(done: int, total: int, said: str = "") -> None:
        nonlocal last_s
        # What was done before, as in a run that goes on, says nothing about the time.
        first[:] = first or [done]
        if time.monotonic() - last_s < LINE_EVERY_S or done in (first[0], total):
            return
        last_s = time.monotonic()
        if total:
            left_s = (last_s - began_s) / (done - first[0]) * (total - done)
            far = f"{done} of {total} {unit}, {clock(left_s)} left"
        else:
            far = f"{done} {unit}"
        print(f"{title}: {far}{said and ', ' + said}", file=sys.stderr, flush=True)

    return on_done


def clock(seconds: float) -> str:
    """Returns a time as minutes and seconds, or with hours where there are any.

    >>> clock(28.4), clock(65), clock(7384)
    ('0:28', '1:05', '2:03:04')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
