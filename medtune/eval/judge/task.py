"""Defines how a benchmark has its free answers judged, and the protocol that a judge follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """Describes how a benchmark has its free answers judged.

    Attributes:
        covers: Says whether the answers to a question need a judge.
        system: Our own instructions for the judge; a user's file may replace them.
        user: A function of (question, reply) that returns the text that the judge is shown.
        schema: The JSON schema of a verdict.
        is_usable: Says whether a judge's reply is a whole verdict; other replies are asked for again and never counted.
        applied: A function of (predictions, the judge's replies by key) that returns the predictions in the form that
            the benchmark's parsers read.
        points: A function from a usable reply of the judge to its points.
        levels: All possible points, lowest first.
        is_extra: Whether verdicts are only shown beside the scores, which do not use them.
    """

    covers: Callable[[Question], bool]
    system: str
    user: Callable[[Question, str], str]
    schema: Mapping[str, object]
    is_usable: Callable[[str], bool]
    applied: Callable[[Iterable[Prediction], Mapping[PredictionKey, str]], list[Prediction]]
    points: Callable[[str], int]
    levels: tuple[int, ...]
    is_extra: bool = False

    def is_needed(self, question: Question) -> bool:
        """Returns whether an answer to the question gets its score only from a judge."""
        return not self.is_extra and self.covers(question)


class Judge(Protocol):
    """A language model that gives verdicts on free answers."""

    @property
    def name(self) -> str:
        """The name of the model, for tables."""
        ...

    def replies(
        self, asked: Sequence[JudgeRequest], *, is_usable: Callable[[str], bool]
    ) -> Iterator[tuple[PredictionKey, str | None]]:
        """Yields one usable reply for each request, in any order; None where the model gave no usable reply."""
        ...
