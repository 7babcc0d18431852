"""Trains the same adapters with medtune and with transformers' Trainer and peft, on the same rows in the same order."""

import statistics
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch

from bench.measuring.measured import Limit, TwoWays
from bench.measuring.peer_job import LR, TUNING, WEIGHT_DECAY, Trainable, groups, rendered, rows_of, trainable
from bench.measuring.peer_process import working
from bench.measuring.unmixed import unmixed
from bench.other_tools.resident_memory import MemoryGrowth
from medtune.data.types import MediaGroup
from medtune.models.features.kept_features import KeptFeatures
from medtune.trainer.recipe.schema import EvalBlock, ModelBlock, Stage, TrainBlock
from medtune.trainer.training.batches import MicroBatches, loader
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.sampling import ResumableOrder, StepOrder

EPOCH_STEPS = 2
"""Steps of an epoch; the first epoch is not timed."""
LOSS_TOLERANCE = 1e-4
"""The largest difference of two losses of one step, in nats a token."""


class TrainingCase(NamedTuple):
    """What is trained."""

    questions: int  # The number of questions about each image.
    images: int  # The number of images of a step.
    visual_tokens: int  # The number of tokens of each image.
    target: float  # The ratio that has to be reached.


class Trained(NamedTuple):
    """What came of one training."""

    seconds: float  # The CPU seconds of the steps after the first epoch.
    peak_mb: float  # The most memory that the steps took at once, beyond what was held before the first.
    losses: list[float]  # The loss of each step, from the first, in nats a token.


class _Clock(pl.Callback):
    """Notes the loss of each step, the CPU seconds at its end, and the memory from the first step on."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.ends_s: list[float] = []
        self.memory: MemoryGrowth | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begins to watch the memory: the model is there, and nothing is computed."""
        self.memory = MemoryGrowth()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Notes the loss and the time."""
        assert isinstance(pl_module, FineTuning)
        self.losses.append(pl_module.step_loss())
        self.ends_s.append(time.process_time())


def compared_training(
    case: TrainingCase, *, python: Path, weights: Path, scratch: Path, epochs: int, compared: int, runs: int
) -> tuple[TwoWays, Limit]:
    """Returns the CPU time of the steps from the second epoch on, in medians, how far the losses differ, and memory.

    The memory is what all steps took at once, in MB, against that of the peer.

    Args:
        case: What is trained.
        python: The Python that has transformers and peft.
        weights: The folder of the model.
        scratch: An empty folder.
        epochs: The number of epochs, at least two.
        compared: The number of first steps whose losses are compared.
        runs: The number of trainings on each side.
    """
    (scratch / "images").mkdir()
    asked = groups(
        scratch / "images", images=case.images * EPOCH_STEPS, questions=case.questions, visual_tokens=case.visual_tokens
    )
    learner = trainable(weights, scratch / "adapter")
    num_steps = EPOCH_STEPS * epochs
    order = {"steps": steps_of(asked, case, num_steps=num_steps), "timed_from": EPOCH_STEPS}
    job = {"weights": str(weights), "adapter": str(scratch / "adapter"), "lr": LR, "weight_decay": WEIGHT_DECAY}
    mine, theirs = [], []
    with working(python, "hf_trainer", job, scratch) as peer:
        for _ in range(runs):
            mine.append(train(learner, asked, case, num_steps=num_steps))
            theirs.append(Trained(**peer(order)))
    title = f"training, {case.questions} questions about each of {case.images} images of {case.visual_tokens} tokens"
    ways = TwoWays(
        title=title,
        quick=f"medtune, {num_steps - EPOCH_STEPS} steps",
        plain="transformers' Trainer with peft",
        quick_s=statistics.median(each.seconds for each in mine),
        plain_s=statistics.median(each.seconds for each in theirs),
        apart=widest(mine[0].losses[:compared], theirs[0].losses[:compared]),
        tolerance=LOSS_TOLERANCE,
        target=case.target,
    )
    # The first training on each side also imports what it needs.
    mine_mb, theirs_mb = (statistics.median(each.peak_mb for each in side) for side in (mine, theirs))
    return ways, Limit(f"memory of {title}, against that of the peer", mine_mb, theirs_mb, "MB")


def train(learner: Trainable, asked: Sequence[MediaGroup], case: TrainingCase, *, num_steps: int) -> Trained:
    """Returns what came of one training with medtune, which begins with the adapters' first values."""
    with torch.no_grad():
        for name, parameter in learner.assembled.model.named_parameters():
            if name in learner.start:
                parameter.copy_(learner.start[name])
    module = FineTuning(
        learner.assembled,
        Stage("peers", max_steps=num_steps, warmup_ratio=0.0, schedule="constant", tuning=TUNING),
        train=TrainBlock(clip_norm=0.0, weight_decay=WEIGHT_DECAY),
        answers=EvalBlock(),
        chosen=ModelBlock("nano_qwen25vl"),
    )
    # Each training reads every picture in its first epoch.
    learner.assembled.model.kept = KeptFeatures()
    learner.assembled.model.kept.begin_training(comes_again=True)
    clock = _Clock()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=num_steps,
        logger=False,
        callbacks=[clock],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batches = MicroBatches(
        unmixed(asked, rendered, seed=0),
        step_order(asked, case),
        rank=0,
        template=learner.assembled.template,
        transform=learner.assembled.transform,
    )
    numbers = ResumableOrder(
        epoch_steps=num_steps, length=num_steps, accumulate=1, start_step=lambda: trainer.global_step
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The 'train_dataloader' does not have many workers")
        trainer.fit(module, train_dataloaders=loader(batches, numbers, workers=0))
    assert clock.memory is not None
    return Trained(clock.ends_s[-1] - clock.ends_s[EPOCH_STEPS - 1], clock.memory.peak_mb(), clock.losses)


def step_order(asked: Sequence[MediaGroup], case: TrainingCase) -> StepOrder:
    """Returns the order in which medtune shows the images."""
    row = unmixed(asked, rendered, seed=0).row()
    return StepOrder(row, batch_size=case.images, micro_batch_size=case.images, world_size=1)


def steps_of(asked: Sequence[MediaGroup], case: TrainingCase, *, num_steps: int) -> list[list[dict[str, Any]]]:
    """Returns the rows of each step, in medtune's order."""
    order = step_order(asked, case)
    return [rows_of([asked[draw.group] for draw in order.step_groups(step)]) for step in range(num_steps)]


def widest(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """Returns the largest difference between two lists of numbers of the same length."""
    return max(abs(one - other) for one, other in zip(mine, theirs, strict=True))
