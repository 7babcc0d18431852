"""Times answering and training with and without shared prefixes: questions about one image share its encoded beginning.

With sharing, the questions about an image form a tree of tokens; without it, each question is a row of its own. Both
ways run on simulated images with a few questions each, by default on the model pocket. Their results are compared in
float32; the time is measured in the precision that `train.precision: auto` resolves to.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from bench.measuring.measured import Measured, TwoWays, timed
from bench.measuring.subjects import first_simulated
from bench.measuring.unmixed import unmixed
from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare
from medtune.data.types import MediaGroup, Request
from medtune.eval.benchmark import Benchmark
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Precision, Tuning
from medtune.models.tuning.quantize import precise, resolved, set_types
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.training.batches import MicroBatches
from medtune.trainer.training.sampling import StepOrder

NUM_GROUPS, NUM_COMPARED = 40, 4
STEPS = 4
GROUPS_PER_STEP = 8
TOLERANCE = 1e-3
"""The largest allowed difference of log-probabilities, and of gradients relative to the largest gradient."""
ANSWERING_TARGET, TRAINING_TARGET = 1.5, 1.2

Work = Callable[[bool], torch.Tensor]
"""The type of a function that does the work with (True) or without (False) sharing.

It returns a tensor with one axis, whose numbers must not depend on sharing.
"""


def bench(subject: str | None) -> Measured:
    """Returns the figures of the model named `subject`; None means "pocket"."""
    return measured(subject or "pocket", num_groups=NUM_GROUPS, steps=STEPS)


def measured(model: str, *, num_groups: int, steps: int) -> Measured:
    """Returns both comparisons, answering and training."""
    assembled = zoo_entry(model).assemble(0)
    name, benchmark, simulation = first_simulated("image")
    apply_tuning(assembled.model, Tuning(), seed=0)
    device = device_of_rank(0)
    assembled.model.eval()
    assembled.model.to(device)
    precision = resolved("auto", device)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(
            find_source(simulation.source), benchmark=name, root=None, out=Path(folder) / "data", limit=24
        )
        groups = prepared.groups("train")[:num_groups]
        few = groups[:NUM_COMPARED]
        apart = [
            widest_apart(answering(assembled, few, benchmark, precision="32-true")),
            widest_apart(training(assembled, few, benchmark, precision="32-true", steps=1)),
        ]
        set_types(assembled.model, precision)
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
    """Returns a function that answers every question of the groups and returns the log-probabilities of all options."""

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
    """Returns a function that runs forward and backward passes and returns the gradients divided by the largest one."""

    def train(share_prefix: bool) -> torch.Tensor:
        batch_size = min(GROUPS_PER_STEP, len(groups))
        data = unmixed(groups, lambda question: benchmark.render(question, "text"), seed=0)
        device = device_of(assembled)
        batches = MicroBatches(
            data,
            StepOrder(data.row(), batch_size=batch_size, micro_batch_size=batch_size, world_size=1),
            rank=0,
            template=assembled.template,
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
        # Copying to the CPU waits until the GPU has finished, so that all of its work is timed.
        return (gradients / gradients.abs().max()).cpu()

    return train


def device_of(assembled: Assembled) -> torch.device:
    """Returns the device on which the model's weights are."""
    return next(assembled.model.parameters()).device


def device_text(device: torch.device) -> str:
    """Returns a description of the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads"


def widest_apart(work: Work) -> float:
    """Returns the largest difference between the results of the work with and without sharing."""
    return float((work(True) - work(False)).abs().max())


def two_ways(title: str, work: Work, *, apart: float, target: float) -> TwoWays:
    """Returns the time of the work with and without sharing, measured after a warm-up of each."""
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
