"""Has a judge score draws to questions that nothing else scores: rank 0 asks for all ranks, once for each text."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.distributed as dist

from medtune.data.types import JudgeRequest, PredictionKey, Question
from medtune.eval.judge import Judge, JudgeTask
from medtune.trainer.devices.ranks import told_by_all, told_by_first


class JudgedText(NamedTuple):
    """A text that the model drew to a question, which waits for a verdict."""

    member: int  # The number of the question's training set in the mixture.
    question: Question
    words: str  # The text behind the thought, which is not empty.


class _JudgedKey(NamedTuple):
    """What a judge is shown of a text; equal ones get one verdict."""

    member: int
    question_id: str
    words: str


class DrawJudge:
    """A judge of draws, which is opened when it is first needed.

    Args:
        opened: Opens the judge; its cap on costs holds for all verdicts that its ledger counts.
        tasks: How the answers of each training set are judged, with the instructions; None where none are.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Judge]], tasks: Sequence[tuple[JudgeTask, str] | None]
    ) -> None:
        self._opened = opened
        self._tasks = tasks
        self._stack = ExitStack()
        self._judge: Judge | None = None
        self._known: dict[_JudgedKey, str | None] = {}

    def verdicts(self, texts: Sequence[JudgedText]) -> list[str | None]:
        """Returns the judge's reply to each text of this rank, None where it gave no usable one.

        Every rank has to call it. An error of the judge, such as a cap that is reached, is raised on all of them.
        """
        mine = {_JudgedKey(each.member, each.question.id, each.words): each for each in texts}
        asked = [(key, self._request(each)) for key, each in mine.items() if key not in self._known]
        everywhere = {key: request for each in told_by_all(asked) for key, request in each}
        found, error = told_by_first(self._ask(everywhere))
        if error is not None:
            raise ValueError(f"train.replies.judge: {error}")
        self._known |= found
        return [self._known[_JudgedKey(each.member, each.question.id, each.words)] for each in texts]

    def close(self) -> None:
        """Ends the judge's connections and says what was asked and spent."""
        self._stack.close()
        self._judge = None

    def _request(self, each: JudgedText) -> JudgeRequest:
        task, system = self._task(each.member)
        key = PredictionKey(each.question.id, "image", "generation", 0)
        return JudgeRequest(key, system, task.user(each.question, each.words), task.schema)

    def _ask(self, asked: Mapping[_JudgedKey, JudgeRequest]) -> tuple[dict[_JudgedKey, str | None], str | None]:
        """Returns the verdicts, and why there are none; only the first rank asks."""
        if not asked or (dist.is_initialized() and dist.get_rank() != 0):
            return {}, None
        try:
            return self._verdicts(asked), None
        except (ValueError, OSError, torch.OutOfMemoryError) as error:
            return {}, str(error)

    def _verdicts(self, asked: Mapping[_JudgedKey, JudgeRequest]) -> dict[_JudgedKey, str | None]:
        if self._judge is None:
            self._judge = self._stack.enter_context(self._opened())
        found: dict[_JudgedKey, str | None] = {}
        for member in {key.member for key in asked}:
            task, _ = self._task(member)
            # A judge tells texts apart by their number.
            numbered = dict(enumerate(key for key in asked if key.member == member))
            requests = [
                replace(asked[key], key=PredictionKey(key.question_id, "image", "generation", number))
                for number, key in numbered.items()
            ]
            for key, text in self._judge.replies(requests, is_usable=task.is_usable):
                found[numbered[key.repeat]] = text
        return found

    def _task(self, member: int) -> tuple[JudgeTask, str]:
        task = self._tasks[member]
        assert task is not None
        return task
