"""Tells how much of a gain goes with replies that became readable, rather than with answers that became right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

from medtune.data.types import Interval
from medtune.eval.parsed_reply import ParsedReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Readability:
    """The questions of a gain by whether the replies to them could be read, and the gain where they always could.

    A model that merely learnt to answer in few words is read more often, and its score rises without any knowledge.

    Attributes:
        only_before: Number of questions whose reply could be read before and not after.
        only_after: Number of questions whose reply could be read after and not before.
        neither: Number of questions whose reply could be read neither before nor after.
        both: Number of questions whose reply could be read before and after.
        value: The gain on those questions; None if there are none.
        ci95: Its 95 % interval, paired by question, with patients as clusters; None if there is none.
    """

    only_before: int
    only_after: int
    neither: int
    both: int
    value: float | None = None
    ci95: Interval | None = None


class GainOnRows(Protocol):
    """A gain on some of the questions."""

    @property
    def value(self) -> float:
        """The metric after minus before."""
        ...

    @property
    def ci95(self) -> Interval:
        """Its 95 % interval."""
        ...


def readability(
    before: Sequence[ParsedReply],
    after: Sequence[ParsedReply],
    gain: Callable[[Sequence[ParsedReply], Sequence[ParsedReply]], GainOnRows],
) -> Readability | None:
    """Returns the readability of scored rows that are paired by position; None if every reply could be read.

    A question that was not answered has no reply to be read, and counts as unread.

    Args:
        before: The rows before.
        after: The rows after, about the same questions in the same order.
        gain: Returns the gain on some of them.
    """
    pairs = [(one.parsed is not None, other.parsed is not None) for one, other in zip(before, after, strict=True)]
    both = pairs.count((True, True))
    if both == len(pairs):
        return None
    kept = [all(pair) for pair in pairs]
    on_both = gain([*compress(before, kept)], [*compress(after, kept)]) if both else None
    return Readability(
        only_before=pairs.count((True, False)),
        only_after=pairs.count((False, True)),
        neither=pairs.count((False, False)),
        both=both,
        value=on_both.value if on_both else None,
        ci95=on_both.ci95 if on_both else None,
    )


def readability_text(found: Readability) -> str:
    """Returns the readability of a gain as a sentence.

    Example:
        >>> readability_text(Readability(only_before=1, only_after=20, neither=0, both=0))
        '20 replies became readable and 1 unreadable; no question has a reply that could be read both times.'
    """
    said = f"{found.only_after:,} {'reply' if found.only_after == 1 else 'replies'} became readable and "
    said += f"{found.only_before:,} unreadable"
    if found.neither:
        said += f", {found.neither:,} could be read neither time"
    if found.value is None:
        return f"{said}; no question has a reply that could be read both times."
    reach = f" (95 % interval {found.ci95.low:+.3f} to {found.ci95.high:+.3f})" if found.ci95 else ""
    said += f"; on the {found.both:,} questions whose replies could be read both times"
    return f"{said} the gain is {found.value:+.3f}{reach}."
