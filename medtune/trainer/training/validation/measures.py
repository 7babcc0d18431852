"""Measures answers with torchmetrics, whose states are joined over all ranks: the metrics that Lightning logs.

Shape legend: N answers, C labels.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric
from torchmetrics.classification import BinaryAUROC, BinaryCalibrationError, MulticlassAccuracy

from medtune.data.types import Prediction, Question
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import visit_answers
from medtune.eval.scoring.answer_classes import task_name
from medtune.eval.scoring.parse_replies import PER_TOKEN, parse
from medtune.eval.statistics.calibration import NUM_BINS, brier_score, option_probabilities, true_place
from medtune.models.answering import LocalAnswerer, TargetRead
from medtune.models.contract import Assembled
from medtune.models.media_reader import lost_readers_named
from medtune.models.sharding.lock_step import InTurns, lock_step
from medtune.models.tuning.adapters import merged
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import precise
from medtune.trainer.devices.ranks import told_by_all
from medtune.trainer.recipe.schema import EvalBlock
from medtune.trainer.training.validation.asked import CLOSED, EvaluatedSplit, VisitBatch
from medtune.trainer.training.validation.benchmark_metric import metric_values

UNPARSABLE, UNLISTED = 0, 1
"""The labels of a reply that no answer can be read from, and of one that names an answer which nobody offered."""


class Answered(NamedTuple):
    question: Question
    predictions: Sequence[Prediction]
    target: TargetRead


class AnswerMeasures:
    """Loss, token accuracy, choice accuracy, macro F1, calibration error, Brier score, and the same for each task.

    Every rank updates it with its own answers. `compute` has to be called on all ranks together.
    """

    def __init__(self, asked: EvaluatedSplit, device: torch.device) -> None:
        self._asked = asked
        self._device = device
        self._labels = asked.labels()
        self._tasks = asked.tasks()
        self._loss = MeanMetric().to(device)
        self._tokens = MeanMetric().to(device)
        self._all = self._new() if self._labels else None
        self._by_task = {name: self._new(task.classes) for name, task in self._tasks.items()}

    def _new(self, classes: Sequence[str] = ()) -> _ClosedAnswers:
        reads = "likelihood" in self._asked.readings and any(q.options for q in self._asked.closed())
        return _ClosedAnswers(len(self._labels) + 2, classes if reads else (), with_shares=reads, device=self._device)

    def update(self, answered: Sequence[Answered]) -> None:
        if answered:
            read_N3 = torch.tensor([each.target for each in answered], dtype=torch.float32, device=self._device)
            logprob_N, tokens_N, likeliest_N = read_N3.T
            self._loss.update(-logprob_N / tokens_N, tokens_N)
            self._tokens.update(likeliest_N / tokens_N, tokens_N)
        closed = [row for each in answered if (row := self._closed(each)) is not None]
        if closed and self._all is not None:
            self._all.update(closed)
        for name, measures in self._by_task.items():
            if mine := [row for row in closed if row.task == name]:
                measures.update(mine)

    def _closed(self, answered: Answered) -> _Closed | None:
        question, asked = answered.question, self._asked
        by_reading = {prediction.key.reading: prediction for prediction in answered.predictions}
        # An answer to a free question may be in the words of an option.
        is_listed = question.answer_kind in CLOSED and question.answer in self._labels
        if not is_listed or (counted := by_reading.get(asked.reading)) is None:
            return None
        said = parse(question, counted, asked.benchmark)[asked.parser]
        label = UNPARSABLE if said is None else self._labels.get(said, UNLISTED)
        shares = _shares(by_reading.get("likelihood"), per_token=asked.parser == PER_TOKEN)
        task = task_name(question, asked.benchmark.class_facet)
        return _Closed(task, question.answer, self._labels[question.answer], label, shares)

    def compute(self) -> dict[str, float]:
        """Returns the metrics by name: over all questions, and with the level in front ("task=plane/f1") of each task.

        Metrics of closed answers are left out where no question has one, and those that need probabilities without a
        likelihood reading. "auroc" is the mean over the answers of a task, one against the rest.
        """
        with warnings.catch_warnings():
            # A rank without answers of its own joins the others.
            warnings.filterwarnings("ignore", message=r"The ``compute`` method of metric")
            found = {"loss": float(self._loss.compute()), "token_accuracy": float(self._tokens.compute())}
            if self._all is not None:
                found |= self._all.compute()
            for name, measures in self._by_task.items():
                found |= {f"{self._tasks[name].level}{metric}": value for metric, value in measures.compute().items()}
        return found


class _Closed(NamedTuple):
    task: str
    answer: str
    true: int  # The label of the right answer.
    said: int  # The label of the answer that was read from the reply.
    shares: Mapping[str, float]  # The probability of each option; empty without a likelihood reading.


class _ClosedAnswers:
    def __init__(self, num_labels: int, classes: Sequence[str], *, with_shares: bool, device: torch.device) -> None:
        self._device = device
        self._by_label: dict[str, Metric] = {
            "choice_accuracy": MulticlassAccuracy(num_labels, average="micro", validate_args=False).to(device),
            "f1": MacroF1(num_labels).to(device),
        }
        self._with_shares = with_shares
        self._ece = _listing(BinaryCalibrationError(NUM_BINS, validate_args=False).to(device))
        self._brier = MeanMetric().to(device)
        self._areas = {name: _Area.new(device) for name in classes}

    def update(self, rows: Sequence[_Closed]) -> None:
        true_N, said_N = (self._tensor([getattr(row, name) for row in rows]) for name in ("true", "said"))
        for metric in self._by_label.values():
            metric.update(said_N, true_N)
        read = [row for row in rows if row.shares]
        if not read:
            return
        surest = [max(row.shares, key=row.shares.__getitem__) for row in read]
        right_N = self._tensor([int(option == row.answer) for option, row in zip(surest, read, strict=True)])
        self._ece.update(self._tensor([max(row.shares.values()) for row in read]), right_N)
        places = [true_place([*row.shares], row.answer) for row in read]
        brier = [brier_score([*row.shares.values()], place) for row, place in zip(read, places, strict=True)]
        self._brier.update(self._tensor(brier))
        for name, area in self._areas.items():
            if offered := [row for row in read if name in row.shares]:
                true_N = self._tensor([int(row.answer == name) for row in offered])
                area.curve.update(self._tensor([row.shares[name] for row in offered]), true_N)
                area.share_true.update(true_N.float())

    def _tensor(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, device=self._device)

    def compute(self) -> dict[str, float]:
        found = {name: float(metric.compute()) for name, metric in self._by_label.items()}
        if self._with_shares:
            found |= {"ece": float(self._ece.compute()), "brier": float(self._brier.compute())}
        # All ranks compute all areas, because each of them asks the other ranks for their states.
        areas = [(float(area.share_true.compute()), area) for area in self._areas.values()]
        if values := [float(area.curve.compute()) for share, area in areas if 0 < share < 1]:
            found["auroc"] = fmean(values)
        return found


@dataclass(frozen=True)
class _Area:
    curve: Metric
    share_true: MeanMetric

    @classmethod
    def new(cls, device: torch.device) -> _Area:
        return cls(_listing(BinaryAUROC(validate_args=False).to(device)), MeanMetric(nan_strategy="disable").to(device))


def _listing(metric: Metric) -> Metric:
    device = metric.device
    metric.update(torch.zeros(0, device=device), torch.zeros(0, dtype=torch.long, device=device))
    return metric


class MacroF1(Metric):
    """Mean of the F1 scores of all labels that occur as a true or as a given answer.

    It counts in one vector for each of the three sums. `torchmetrics.classification.MulticlassF1Score` has the same
    value and needs a square matrix of the labels, of which a set with open options has thousands.

    >>> f1 = MacroF1(4)
    >>> f1.update(torch.tensor([2, 2]), torch.tensor([2, 3]))
    >>> round(float(f1.compute()), 4)
    0.3333
    """

    full_state_update = False
    counts_3C: Tensor

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.add_state("counts_3C", torch.zeros(3, num_labels), dist_reduce_fx="sum")

    def update(self, said_N: Tensor, true_N: Tensor) -> None:
        for row, labels_N in enumerate((said_N, true_N, true_N[said_N == true_N])):
            self.counts_3C[row] += torch.bincount(labels_N, minlength=self.counts_3C.shape[1])

    def compute(self) -> Tensor:
        """Returns the mean over the labels that occur; 0 if none does."""
        said_C, true_C, right_C = self.counts_3C
        occurs_C = said_C + true_C > 0
        mean: Tensor = (2 * right_C[occurs_C] / (said_C + true_C)[occurs_C]).sum() / occurs_C.sum().clamp(min=1)
        return mean


def _shares(said: Prediction | None, *, per_token: bool) -> dict[str, float]:
    if said is None or not said.option_logprobs or said.options_shown is None:
        return {}
    logprobs = said.option_logprobs
    if per_token and said.option_tokens:
        logprobs = tuple(total / number for total, number in zip(logprobs, said.option_tokens, strict=True))
    return dict(zip(said.options_shown, option_probabilities(logprobs), strict=True))


class BatchAsker:
    """Answers batches of questions between `begin` and `end`."""

    def __init__(self, assembled: Assembled, limits: EvalBlock, *, seed: int) -> None:
        self._assembled = assembled
        self._limits = limits
        self._seed = seed
        self._device = torch.device("cpu")
        self._in_turns: InTurns | None = None
        self._answerer: LocalAnswerer | None = None
        self._targets: dict[str, TargetRead] = {}
        self._measures: AnswerMeasures | None = None
        self._asked: EvaluatedSplit | None = None
        self._said: list[Prediction] = []

    def begin(self, device: torch.device, precision: Precision, in_turns: InTurns | None = None) -> None:
        """Makes the model ready, and forgets the measures of the validation before.

        Args:
            in_turns: How the ranks gather the parts of a divided model in turns; None is for one that is whole, or
                divided by FSDP2.
        """
        self._assembled.model.eval()
        self._device, self._measures, self._in_turns = device, None, in_turns
        self._said = []
        self._answerer = self._new(device, precision, on_target=self._targets.__setitem__)

    def _new(
        self, device: torch.device, precision: Precision, *, on_target: Callable[[str, TargetRead], None] | None = None
    ) -> LocalAnswerer:
        limits = self._limits
        return LocalAnswerer(
            self._assembled,
            device=device,
            batch_tokens=limits.batch_tokens,
            batch_size=limits.batch_size,
            max_new_tokens=limits.max_new_tokens,
            precise=precise(precision, device),
            temperature=limits.temperature,
            seed=self._seed,
            on_target=on_target,
        )

    @contextlib.contextmanager
    def answering(self, device: torch.device, precision: Precision) -> Iterator[Answerer]:
        """Returns a context that gives an answerer, apart from what a validation measures."""
        with lost_readers_named(), merged(self._assembled.model):
            yield self._new(device, precision)

    def end(self) -> None:
        """Lets go of what was kept for the answers."""
        self._answerer = None

    def answered(self, batch: VisitBatch) -> list[Answered]:
        """Returns the answers to the questions of a batch; ranks that share a divided model leave it together."""
        assert self._answerer is not None
        self._targets.clear()
        self._answerer.expect([(visit.shown, visit.requests) for visit in batch.visits], batch.reader)
        found: dict[str, list[Prediction]] = {}
        model = self._assembled.model
        with lock_step(model, in_turns=self._in_turns), lost_readers_named(), merged(model):
            for visit in batch.visits:
                for prediction in visit_answers(self._answerer, visit):
                    found.setdefault(prediction.key.question_id, []).append(prediction)
        questions = {r.question.id: r.question for visit in batch.visits for r in visit.requests}
        return [Answered(questions[id_], predictions, self._targets[id_]) for id_, predictions in found.items()]

    def measured(self, batch: VisitBatch) -> list[Answered]:
        if self._measures is None:
            self._measures = AnswerMeasures(batch.asked, self._device)
        answered = self.answered(batch)
        self._measures.update(answered)
        self._asked = batch.asked
        self._said += [prediction for each in answered for prediction in each.predictions]
        return answered

    def scores(self) -> dict[str, float]:
        """Returns the benchmark's metrics of all answers of all ranks by name; every rank has to call it.

        A metric whose answers wait for a judge is left out.
        """
        said = {prediction.key: prediction for rank in told_by_all(self._said) for prediction in rank}
        ids = {key.question_id for key in said}
        if self._asked is None or not ids:
            return {}
        questions = [question for question in self._asked.questions if question.id in ids]
        benchmark = self._asked.benchmark.for_part(questions)
        is_read = self._asked.reading == "generation" or any(key.reading == "likelihood" for key in said)
        parser = self._asked.parser if is_read else None
        values = metric_values(questions, list(said.values()), benchmark, parser=parser)
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def compute(self) -> dict[str, float]:
        """Returns the metrics of all answers of all ranks; every rank has to call it."""
        return {} if self._measures is None else self._measures.compute()
