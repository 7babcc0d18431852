"""Has a language model judge free answers, stores its verdicts, and compares them with a person's scores.

Here stands how a benchmark has its free answers judged, and the protocol that a judge follows.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from medtune.data.json_text import json_value
from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question
from medtune.eval.scoring.parsers.choice_statements import without_thinking

FENCE = re.compile(r"^```\w*\s*|\s*```$")


class OfficialWords(NamedTuple):
    """The words in which a benchmark's own evaluation script asks a judge."""

    system: str
    # A function of (question, reply) that returns the text that the judge is shown.
    user: Callable[[Question, str], str]
    user_words: str  # That text with gaps, which tells it apart from others.


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """Describes how a benchmark has its free answers judged."""

    covers: Callable[[Question], bool]  # Says whether the answers to a question need a judge.
    system: str  # Our own instructions for the judge; a user's file may replace them.
    # A function of (question, reply) that returns the text that the judge is shown.
    user: Callable[[Question, str], str]
    schema: Mapping[str, object]
    # Says whether a judge's reply is a whole verdict; other replies are asked for again and never counted.
    is_usable: Callable[[str], bool]
    # A function of (predictions, the judge's replies by key) that returns the predictions in the form that the
    # benchmark's parsers read.
    applied: Callable[[Iterable[Prediction], Mapping[PredictionKey, str]], list[Prediction]]
    read_points: Callable[[str], int | None]  # Returns the points in a reply of the judge; None where it states none.
    levels: tuple[int, ...]  # All possible points, lowest first.
    is_extra: bool = False  # Whether verdicts are only shown beside the scores, which do not use them.
    # A function of (the benchmark's own evaluation script or its folder, whether its block on strictness is appended)
    # that reads the script's words for the judge; None if medtune reads no such script.
    official: Callable[[Path, bool], OfficialWords] | None = None
    # The words around question and reply, with gaps, if they are read from such a script; "" for ours.
    user_words: str = ""

    def points(self, text: str) -> int:
        """Returns the points in a reply of the judge that is a verdict."""
        found = self.read_points(text)
        if found is None:
            raise ValueError("this reply of the judge is no verdict; judge the answer again")
        return found

    def is_needed(self, question: Question) -> bool:
        """Returns whether an answer to the question gets its score only from a judge."""
        return not self.is_extra and self.covers(question)


def json_in_reply(text: str) -> object:
    """Returns the JSON that a judge's reply is, with or without thoughts and a code fence; None where it is none."""
    try:
        return json_value(FENCE.sub("", without_thinking(text).strip()))
    except ValueError:
        return None


def with_official_words(task: JudgeTask, script: Path, *, is_strict: bool) -> JudgeTask:
    """Returns the task in the words of the benchmark's own script, which is read and never run; strict if asked."""
    if task.official is None:
        raise ValueError("official: medtune reads no judge's words of this benchmark; name files of text in prompt")
    system, user, user_words = task.official(script, is_strict)
    return replace(task, system=system, user=user, user_words=user_words)


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
