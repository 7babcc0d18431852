"""What evaluation asks of a model: the one Protocol between the rooms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from medtune.data.types import MediaGroup, Prediction, Request


class Answerer(Protocol):
    """Anything that answers requests about one media group."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request, in any order.

        `group.media` is what is shown: for the condition "other_image" the caller passes the other
        patient's group; for "text_only" no media is shown whatever the group holds.
        """
        ...


@runtime_checkable
class ToldAhead(Protocol):
    """An answerer that wants to know what it will be asked, e.g. to ask a server several questions at a time."""

    def expect(self, visits: Sequence[tuple[MediaGroup, Sequence[Request]]]) -> None:
        """Takes all that will be asked, in that order, before the first call of `answer`."""
        ...
