"""Answering and training with and without shared beginnings, by default on pocket: the tree against plain rows.

Both run on simulated ultrasound images with one to four questions each. Whether they give the same is looked at in
float32; the time is taken in the precision that `train.precision: auto` resolves to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared.folder import prepare
from medtune.data.types import MediaGroup, Request
from medtune.eval.benchmark import Benchmark
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Precision, Tuning
from medtune.models.tuning.precision import narrow_frozen, precise, resolved
from medtune.trainer.benches.figures.measured import Measured, TwoWays, timed
from medtune.trainer.experiment.strategies import device_of_rank
from medtune.trainer.training.batches import MicroBatches
from medtune.trainer.training.mixture import whole_part
from medtune.trainer.training.sampling import StepOrder

NUM_GROUPS, NUM_COMPARED = 40, 4
STEPS = 4
GROUPS_PER_STEP = 8
TOLERANCE = 1e-3
"""Of log-probabilities, and of gradients as a share of the largest."""
ANSWERING_TARGET, TRAINING_TARGET = 1.5, 1.2

Work = Callable[[bool], torch.Tensor]
"""Takes whether to share; returns numbers that must not depend on it, in one row."""


def bench(subject: str | None) -> Measured:
    """Returns the figures of one model, by its name."""
    return measured(subject or "pocket", num_groups=NUM_GROUPS, steps=STEPS)


def measured(model: str, *, num_groups: int, steps: int) -> Measured:
    """Returns both comparisons on so many images, training for so many steps."""
    assembled, benchmark = zoo_entry(model).assemble(0), find_benchmark("fetal_gauge")
    apply_tuning(assembled.model, Tuning(), seed=0)
    device = device_of_rank(0)
    assembled.model.eval()
    assembled.model.to(device)
    precision = resolved("auto", device)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(
            find_source("fetal_phantom"),
            benchmark="fetal_gauge",
            root=None,
            out=Path(folder) / "data",
            limit=24,
        )
        groups = prepared.groups("train")[:num_groups]
        few = groups[:NUM_COMPARED]
        apart = [
            widest_apart(answering(assembled, few, benchmark, precision="32-true")),
            widest_apart(training(assembled, few, benchmark, precision="32-true", steps=1)),
        ]
        narrow_frozen(assembled.model, precision)
        works = [
            answering(assembled, groups, benchmark, precision=precision),
            training(assembled, groups, benchmark, precision=precision, steps=steps),
        ]
        ways = [
            two_ways(title, work, apart=found, target=target)
            for title, work, found, target in zip(
                ("answering", "training"), works, apart, (ANSWERING_TARGET, TRAINING_TARGET), strict=True
            )
        ]
    subject = f"{model}, {len(groups)} images, {precision}, {device_text(device)}"
    return Measured(subject, tuple(ways))


def answering(
    assembled: Assembled,
    groups: Sequence[MediaGroup],
    benchmark: Benchmark,
    *,
    precision: Precision,
    batch_tokens: int = 4096,
) -> Work:
    """Returns what answers every question of the groups, and gives all option log-probabilities."""

    def answer(share_prefix: bool) -> torch.Tensor:
        answerer = LocalAnswerer(
            assembled,
            device=device_of(assembled),
            batch_tokens=batch_tokens,
            max_new_tokens=8,
            precise=precise(precision, device_of(assembled)),
            share_prefix=share_prefix,
        )
        found = []
        for group in groups:
            asked = [Request(q, benchmark.render(q, "text"), "likelihood", "image") for q in group.questions]
            by_id = {told.key.question_id: told.option_logprobs or () for told in answerer.answer(group, asked)}
            found += [value for question in group.questions for value in by_id[question.id]]
        return torch.tensor(found)

    return answer


def training(
    assembled: Assembled, groups: Sequence[MediaGroup], benchmark: Benchmark, *, precision: Precision, steps: int
) -> Work:
    """Returns what runs forward and backward passes, and gives the gradients over the largest of them."""

    def train(share_prefix: bool) -> torch.Tensor:
        batch_size = min(GROUPS_PER_STEP, len(groups))
        data = whole_part(groups, lambda question: benchmark.render(question, "text"), seed=0)
        device = device_of(assembled)
        batches = MicroBatches(
            data,
            StepOrder(data.row(), batch_size=batch_size, micro_batch_size=batch_size, world_size=1),
            rank=0,
            family=assembled.family,
            transform=assembled.transform,
            share_prefix=share_prefix,
        )
        assembled.model.zero_grad()
        for number in range(steps):
            batch = batches[number]
            with precise(precision, device)():
                encoded = None if batch.media is None else assembled.model.encode(batch.media)
                told = assembled.model(batch.rows.to(device), encoded)
                loss = -told.logprobs_T.sum() / batch.step_target_tokens
            loss.backward()
        found = [each.grad.flatten() for each in assembled.model.parameters() if each.grad is not None]
        gradients = torch.cat(found).float()
        # On a CPU again, when a GPU has done its work.
        return (gradients / gradients.abs().max()).cpu()

    return train


def device_of(assembled: Assembled) -> torch.device:
    """Returns where the model's weights are."""
    return next(assembled.model.parameters()).device


def device_text(device: torch.device) -> str:
    """Returns what it runs on, in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads"


def widest_apart(work: Work) -> float:
    """Returns the largest difference that sharing makes."""
    return float((work(True) - work(False)).abs().max())


def two_ways(title: str, work: Work, *, apart: float, target: float) -> TwoWays:
    """Returns how long the work takes in both ways, after one of each that warms up."""
    work(True)
    work(False)
    _, quick_s = timed(lambda: work(True))
    _, plain_s = timed(lambda: work(False))
    return TwoWays(
        title=title,
        quick="what sequences share computed once",
        plain="a row each",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=apart,
        tolerance=TOLERANCE,
        target=target,
    )
