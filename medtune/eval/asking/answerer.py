"""Defines the Answerer protocol, the only interface through which evaluation uses a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from medtune.data.types import Condition, MediaGroup, Prediction, Request


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


@dataclass(frozen=True, slots=True)
class AnswerProtocol:
    """The published settings with which a benchmark's models answered.

    Attributes:
        temperature: The temperature of sampling; 0 is greedy, and None means that it is not stated.
        repeats: The number of times that each question was asked.
        max_new_tokens: The length of the longest reply in tokens; None if it is not stated.
        source: Where these settings are stated.
        condition_repeats: For each condition of an ablation the number of times that it, and the plain image beside it,
            was asked.
    """

    temperature: float | None
    repeats: int
    max_new_tokens: int | None
    source: str
    condition_repeats: Mapping[Condition, int] = field(default_factory=dict)
