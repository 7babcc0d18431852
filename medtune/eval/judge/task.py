"""What a benchmark says about judging its free answers, and what judging asks of a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """How a benchmark's free answers are judged.

    Attributes:
        covers: The questions whose answers need a judge.
        system: Our own instructions; a user's file may take their place.
        user: Question and reply -> what the judge is shown.
        schema: JSON schema of a verdict.
        is_usable: Whether a judge's reply is a whole verdict; else it is asked for again and never counted.
        applied: Predictions and the judge's replies by key -> predictions as the benchmark's parsers read them.
        points: A usable reply of the judge -> points.
        levels: All points there are, lowest first.
        is_extra: Whether verdicts stand beside the scores, which need none and never change by them.
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
        """Returns whether an answer to the question has no points until it is judged."""
        return not self.is_extra and self.covers(question)


class Judge(Protocol):
    """Any language model that gives verdicts."""

    @property
    def name(self) -> str:
        """The model, for tables."""
        ...

    def replies(
        self, asked: Sequence[JudgeRequest], *, is_usable: Callable[[str], bool]
    ) -> Iterator[tuple[PredictionKey, str | None]]:
        """Yields one usable reply per request, in any order; None where there was none. It makes none up."""
        ...
