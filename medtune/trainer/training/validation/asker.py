"""Answers the questions of a validation with a model in this process, and measures the answers."""

import torch

from medtune.data.types import Prediction
from medtune.eval.asking.ask import visit_answers
from medtune.models.answering import LocalAnswerer, TargetRead
from medtune.models.contract import Assembled
from medtune.models.media_reader import lost_readers_named
from medtune.models.sharding.lock_step import InTurns, lock_step
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import precise
from medtune.trainer.recipe.schema import EvalBlock
from medtune.trainer.training.validation.asked import VisitBatch
from medtune.trainer.training.validation.measures import Answered, AnswerMeasures


class Asker:
    """Answers batches of questions between `begin` and `end`.

    Args:
        assembled: The model that answers.
        limits: The limits of a forward pass and of a reply.
        seed: Seed of replies that are drawn.
    """

    def __init__(self, assembled: Assembled, limits: EvalBlock, *, seed: int) -> None:
        self._assembled = assembled
        self._limits = limits
        self._seed = seed
        self._device = torch.device("cpu")
        self._in_turns: InTurns | None = None
        self._answerer: LocalAnswerer | None = None
        self._targets: dict[str, TargetRead] = {}
        self._measures: AnswerMeasures | None = None

    def begin(self, device: torch.device, precision: Precision, in_turns: InTurns | None = None) -> None:
        """Makes the model ready, and forgets the measures of the validation before.

        Args:
            device: The device of the model.
            precision: The precision that it computes in.
            in_turns: How the ranks gather the parts of a divided model in turns; None is for one that is whole, or
                divided by FSDP2.
        """
        limits = self._limits
        self._assembled.model.eval()
        self._device, self._measures, self._in_turns = device, None, in_turns
        self._answerer = LocalAnswerer(
            self._assembled,
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
        """Lets go of what was kept for the answers."""
        self._answerer = None

    def answered(self, batch: VisitBatch) -> list[Answered]:
        """Returns the answers to the questions of a batch; ranks that share a divided model leave it together.

        Raises:
            RanksFailedError: Another rank has failed.
        """
        assert self._answerer is not None
        self._targets.clear()
        self._answerer.expect([(visit.shown, visit.requests) for visit in batch.visits], batch.reader)
        found: dict[str, list[Prediction]] = {}
        with lock_step(self._assembled.model, in_turns=self._in_turns), lost_readers_named():
            for visit in batch.visits:
                for prediction in visit_answers(self._answerer, visit):
                    found.setdefault(prediction.key.question_id, []).append(prediction)
        questions = {r.question.id: r.question for visit in batch.visits for r in visit.requests}
        return [Answered(questions[id_], predictions, self._targets[id_]) for id_, predictions in found.items()]

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
