"""Measures the closed answers of a validation with torchmetrics: accuracy, macro F1, calibration, Brier score, AUROC.

The answers are those that the validation reads anyway, so nothing is asked for these numbers. Every rank has the
answers of all ranks already. The metrics therefore never exchange their states, which would count each answer once for
every rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric
from torchmetrics.classification import BinaryAUROC, BinaryCalibrationError, MulticlassAccuracy, MulticlassF1Score

from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.answer_classes import is_closed, task_name
from medtune.eval.scoring.parse_replies import PER_TOKEN
from medtune.eval.scoring.score import PhaseScores
from medtune.eval.statistics.calibration import NUM_BINS


def classification_metrics(phase: str, scores: PhaseScores, *, facet: str) -> dict[str, float]:
    """Returns the metrics over all closed questions, and of each task whose questions share their answers.

    The names end in "choice_accuracy", "f1" (macro), "ece" (expected calibration error), "brier" and "auroc" (mean over
    the answers, one against the rest). The last three need a likelihood reading and are left out without one.

    Args:
        phase: The first part of the names, e.g. "validation".
        scores: The scores of the phase.
        facet: The facet whose levels are told apart (`Benchmark.class_facet`).
    """
    closed = [row for row in scores.rows if is_closed(row)]
    if not closed:
        return {}
    per_token = scores.parser == PER_TOKEN
    read = {row.question.id: _probabilities(row, per_token=per_token) for row in scores.likelihoods if row.prediction}
    found = {f"{phase}/{name}": value for name, value in _measured(closed, read).items()}
    by_task: dict[str, list[ParsedReply]] = {}
    for row in closed:
        by_task.setdefault(task_name(row, facet), []).append(row)
    for task in scores.classes.found:
        rows = by_task.get(task.name, [])
        if rows:
            level = f"{facet}={rows[0].question.facets[facet]}" if task.name != task.task else f"task={task.task}"
            values = _measured(rows, read) | _area(rows, read, [each.name for each in task.classes])
            found |= {f"{phase}/{level}/{name}": value for name, value in values.items()}
    return found


def _probabilities(row: ParsedReply, *, per_token: bool) -> dict[str, float]:
    said = row.prediction
    if said is None or not said.option_logprobs:
        return {}
    logprobs = torch.tensor(said.option_logprobs, dtype=torch.float64)
    if per_token and said.option_tokens:
        logprobs = logprobs / torch.tensor(said.option_tokens)
    return dict(zip(said.options_shown or row.question.options, logprobs.softmax(-1).tolist(), strict=True))


def _measured(rows: Sequence[ParsedReply], read: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    labels: dict[str | None, int] = {None: 0}
    for row in rows:
        labels.setdefault(row.question.answer, len(labels))
        labels.setdefault(row.parsed, len(labels))
    true = torch.tensor([labels[row.question.answer] for row in rows])
    said = torch.tensor([labels[row.parsed] for row in rows])
    found = {
        "choice_accuracy": _of(MulticlassAccuracy(len(labels), average="micro", sync_on_compute=False), said, true),
        "f1": _of(MulticlassF1Score(len(labels), average="macro", sync_on_compute=False), said, true),
    }
    shares = [(shown, row.question.answer) for row in rows if (shown := read.get(row.question.id))]
    if shares:
        surest = [max(shown, key=shown.__getitem__) for shown, _ in shares]
        confidence = torch.tensor([max(shown.values()) for shown, _ in shares])
        right = torch.tensor([int(option == answer) for option, (_, answer) in zip(surest, shares, strict=True)])
        found["ece"] = _of(BinaryCalibrationError(NUM_BINS, sync_on_compute=False), confidence, right)
        # A truth that is not among the options has the probability 0.
        wanted = [{answer: 0.0, **shown} for shown, answer in shares]
        squares = [
            sum((p - (option == answer)) ** 2 for option, p in each.items()) / 2
            for each, (_, answer) in zip(wanted, shares, strict=True)
        ]
        found["brier"] = _of(MeanMetric(sync_on_compute=False), torch.tensor(squares))
    return found


def _area(
    rows: Sequence[ParsedReply], read: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> dict[str, float]:
    areas = []
    for name in names:
        offered = [(shown[name], row) for row in rows if name in (shown := read.get(row.question.id, {}))]
        true = torch.tensor([int(row.question.answer == name) for _, row in offered])
        if 0 < int(true.sum()) < len(true):
            scores = torch.tensor([share for share, _ in offered])
            areas.append(_of(BinaryAUROC(sync_on_compute=False), scores, true))
    return {"auroc": fmean(areas)} if areas else {}


def _of(metric: Metric, *values: Tensor) -> float:
    metric.update(*values)
    return float(metric.compute())
