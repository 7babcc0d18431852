"""Answers the questions of a validation with a model in this process, and measures the answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import torch

from medtune.data.types import Prediction
from medtune.eval.asking.ask import visit_answers
from medtune.models.answering import LocalAnswerer, TargetRead
from medtune.models.contract import Assembled
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.precision import precise
from medtune.trainer.recipe.schema import EvalBlock
from medtune.trainer.training.validation.asked import VisitBatch
from medtune.trainer.training.validation.measures import Answered, AnswerMeasures


class Asker:
    """Answers batches of questions between `begin` and `end`.

    Args:
        evaluated: Gives the model that answers, while its context lasts.
        limits: The limits of a forward pass and of a reply.
        seed: Seed of replies that are drawn.
    """

    def __init__(
        self, evaluated: Callable[[], AbstractContextManager[Assembled]], limits: EvalBlock, *, seed: int
    ) -> None:
        self._evaluated = evaluated
        self._limits = limits
        self._seed = seed
        self._stack = ExitStack()
        self._device = torch.device("cpu")
        self._answerer: LocalAnswerer | None = None
        self._targets: dict[str, TargetRead] = {}
        self._measures: AnswerMeasures | None = None

    def begin(self, device: torch.device, precision: Precision) -> None:
        """Makes the model ready, and forgets the measures of the validation before."""
        asked, limits = self._stack.enter_context(self._evaluated()), self._limits
        asked.model.eval()
        self._device, self._measures = device, None
        self._answerer = LocalAnswerer(
            asked,
            device=device,
            batch_tokens=limits.batch_tokens,
            batch_size=limits.batch_size,
            max_new_tokens=limits.max_new_tokens,
            precise=precise(precision, device),
            temperature=limits.temperature,
            seed=self._seed,
            on_target=self._targets.__setitem__,
        )

    def end(self) -> None:
        """Lets go of the model."""
        self._answerer = None
        self._stack.close()

    def answered(self, batch: VisitBatch) -> list[Answered]:
        """Returns the answers to the questions of a batch; none if the batch does not count."""
        assert self._answerer is not None
        self._targets.clear()
        self._answerer.expect([(visit.shown, visit.requests) for visit in batch.visits])
        found: dict[str, list[Prediction]] = {}
        for visit in batch.visits:
            for prediction in visit_answers(self._answerer, visit):
                found.setdefault(prediction.key.question_id, []).append(prediction)
        questions = {r.question.id: r.question for visit in batch.visits for r in visit.requests}
        return [
            Answered(questions[id_], predictions, self._targets[id_])
            for id_, predictions in found.items()
            if batch.counts
        ]

    def measured(self, batch: VisitBatch) -> list[Answered]:
        """Returns the answers to the questions of a batch, and counts them."""
        if self._measures is None:
            self._measures = AnswerMeasures(batch.asked, self._device)
        answered = self.answered(batch)
        self._measures.update(answered)
        return answered

    def compute(self) -> dict[str, float]:
        """Returns the metrics of all answers of all ranks; every rank has to call it."""
        return {} if self._measures is None else self._measures.compute()
