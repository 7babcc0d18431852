"""Defines the Answerer protocol, the only interface through which evaluation uses a model."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from medtune.data.types import MediaGroup, Prediction, Request


class Answerer(Protocol):
    """A model, or anything else, that answers requests about one media group at a time."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request, in any order.

        The media in `group.media` are shown: for the condition "other_image" the caller passes the other patient's
        group. For the condition "text_only" no media are shown, whatever the group holds.
        """
        ...


@runtime_checkable
class ToldAhead(Protocol):
    """An answerer that is told in advance what it will be asked, e.g. to ask a server several questions at a time."""

    def expect(self, visits: Sequence[tuple[MediaGroup, Sequence[Request]]]) -> None:
        """Takes all requests that will be made, in their order, before the first call of `answer`."""
        ...
