"""Times a step of grpo, the drawing of replies included, against TRL's GRPOTrainer without vLLM, on one random model.

TRL runs in an environment of its own, which `make bench-rewards` builds, on the same weights, images, questions and
beginning adapters, in float32 on the CPU with one thread. Compared is the CPU time of the steps behind the first one.
Both sides draw with their own random numbers; for the parity medtune learns from the very tokens that TRL drew in its
first step, paid alike, and the norms of the two gradients have to be the same.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from bench.measuring.measured import Measured, TwoWays, refuse_subject
from bench.measuring.peer_job import LR, TUNING, WEIGHT_DECAY, Trainable, groups, rendered, rows_of, trainable
from bench.measuring.peer_process import python_of, working
from bench.measuring.peers_qwen import write_peers_model
from bench.measuring.unmixed import unmixed
from medtune.data.types import MediaGroup, Prediction, Question
from medtune.models.sequence.builder import replied
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.recipe.replies import ReplySettings
from medtune.trainer.recipe.schema import EvalBlock, ModelBlock, Stage, TrainBlock
from medtune.trainer.replies.learning import ReplyLearning
from medtune.trainer.replies.prompts import PromptBatch, PromptMaker
from medtune.trainer.rewards import DrawnReply, Paid, WeighedRewards
from medtune.trainer.training.batches import MicroBatches, loader
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.sampling import ResumableOrder, StepOrder

DRAWS, VISUAL_TOKENS, NEW_TOKENS = 8, 256, 16
CASES = ((1, 4), (4, 1))
"""Images of a step, and questions about each: four questions in all."""
STEPS, TIMED_FROM, RUNS = 5, 1, 1
TARGET = 4.0
TOLERANCE = 1e-3
"""The largest difference of the norms of the gradients, in units of TRL's."""


class PaidByLetters(WeighedRewards):
    """Pays as the function `paid` of bench/other_tools/trl_trainer.py, so that draws of a random model differ."""

    def of(self, member: int, question: Question, prediction: Prediction, *, num_tokens: int, most: int) -> Paid:
        """Returns what a reply is paid."""
        text = prediction.text or ""
        drawn = DrawnReply(text, None, 0.0, num_tokens, most, has_ended=prediction.finish_reason == "stop")
        return Paid(sum(ord(each) * place for place, each in enumerate(text, 1)) % 97 / 97, {}, drawn)


class _Clock(pl.Callback):
    def __init__(self) -> None:
        self.ends_s: list[float] = []
        self.norms: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        assert isinstance(pl_module, FineTuning)
        self.norms.append(pl_module.take_gradient_norm())
        self.ends_s.append(time.process_time())


def bench(subject: str | None) -> Measured:
    """Returns the figures; there is no other subject."""
    refuse_subject("rewards", subject)
    python, threads = python_of("trl"), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            (weights := Path(folder) / "model").mkdir()
            write_peers_model(weights)
            ways = tuple(_compared(python, weights, Path(folder) / f"{images}", images, each) for images, each in CASES)
    finally:
        torch.set_num_threads(threads)
    return Measured("a random Qwen2.5-VL of width 256 and 6 layers, float32, CPU seconds of one thread", ways)


def _compared(python: Path, weights: Path, scratch: Path, images: int, questions: int) -> TwoWays:
    (scratch / "images").mkdir(parents=True)
    asked = groups(scratch / "images", images=images * STEPS, questions=questions, visual_tokens=VISUAL_TOKENS)
    learner = trainable(weights, scratch / "adapter")
    order = _order(asked, images)
    steps = [rows_of([asked[draw.group] for draw in order.step_groups(step)]) for step in range(STEPS)]
    said = {"steps": steps, "draws": DRAWS, "max_new_tokens": NEW_TOKENS, "timed_from": TIMED_FROM}
    job = {"weights": str(weights), "adapter": str(scratch / "adapter"), "lr": LR, "weight_decay": WEIGHT_DECAY}
    mine, theirs = [], []
    with working(python, "trl_trainer", job, scratch) as peer:
        for _ in range(RUNS):
            mine.append(_trained(learner, asked, images)[0])
            found = peer(said)
            theirs.append(found["seconds"])
    _, norms = _trained(learner, asked, images, given=(found["drawn"], found["paid"]), steps=1)
    return TwoWays(
        title=f"grpo, {questions} questions about each of {images} images of {VISUAL_TOKENS} tokens, {DRAWS} draws",
        quick=f"medtune, {STEPS - TIMED_FROM} steps",
        plain="TRL's GRPOTrainer without vLLM",
        quick_s=statistics.median(mine),
        plain_s=statistics.median(theirs),
        apart=abs(norms[0] / found["norm"] - 1),
        tolerance=TOLERANCE,
        target=TARGET,
    )


def _order(asked: Sequence[MediaGroup], images: int) -> StepOrder:
    return StepOrder(unmixed(asked, rendered, seed=0).row(), batch_size=images, micro_batch_size=images, world_size=1)


class _Given(ReplyLearning):
    """Learns from draws that are given, in the order of the questions."""

    given: tuple[Sequence[Sequence[int]], Sequence[float]]

    def _replies(self, asked: Any, *_: Any, **__: Any) -> Any:
        ids, paid = self.given
        drawn = [DrawnReply("", None, 0.0, len(each), NEW_TOKENS, has_ended=True) for each in ids]
        told = [Paid(total, {}, reply) for total, reply in zip(paid, drawn, strict=True)]
        return [
            [(replied(each.layout, ids[place]), told[place]) for place in range(DRAWS * number, DRAWS * (number + 1))]
            for number, (each, _) in enumerate(asked)
        ]


def _trained(
    learner: Trainable, asked: Sequence[MediaGroup], images: int, *, given: Any = None, steps: int = STEPS
) -> tuple[float, list[float]]:
    """Returns the CPU seconds of the timed steps, and the norm of each step's gradient."""
    with torch.no_grad():
        for name, parameter in learner.assembled.model.named_parameters():
            if name in learner.start:
                parameter.copy_(learner.start[name])
    replies = ReplySettings(draws=DRAWS, max_new_tokens=NEW_TOKENS)
    stage = Stage(
        "rewards", max_steps=steps, warmup_ratio=0.0, schedule="constant", loss=LossSettings("grpo"), replies=replies,
        tuning=TUNING,
    )  # fmt: skip
    limits, train = EvalBlock(batch_tokens=2**16), TrainBlock(clip_norm=0.0, weight_decay=WEIGHT_DECAY)
    module = FineTuning(learner.assembled, stage, train=train, answers=limits, chosen=ModelBlock("nano_qwen25vl"))
    if given is not None:
        module.replies = _Given(learner.assembled, stage, limits=limits, seed=0)
        module.replies.given = given
    assert module.replies is not None
    module.replies.rewards = PaidByLetters([], {})
    clock = _Clock()
    trainer = pl.Trainer(
        accelerator="cpu", devices=1, max_steps=steps, logger=False, callbacks=[clock], enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    family, transform = learner.assembled.family, learner.assembled.transform
    batches = MicroBatches(
        unmixed(asked, rendered, seed=0), _order(asked, images), rank=0, family=family, transform=transform,
        make=PromptMaker(stage),
    )  # fmt: skip
    numbers = ResumableOrder(epoch_steps=steps, length=steps, accumulate=1, start_step=lambda: trainer.global_step)
    trainer.fit(module, train_dataloaders=loader(batches, numbers, workers=0))
    assert isinstance(batches[0], PromptBatch)
    return clock.ends_s[-1] - clock.ends_s[min(TIMED_FROM, steps) - 1], clock.norms
