"""medtune's side of the bench of rewards: a few steps of grpo, on its own draws or on draws that are given."""

import time
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch

from bench.measuring.peer_job import TUNING, WEIGHT_DECAY, Trainable, rendered
from bench.measuring.unmixed import unmixed
from medtune.data.types import MediaGroup, Prediction, Question
from medtune.models.sequence.builder import replied
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.recipe.replies import ReplySettings
from medtune.trainer.recipe.schema import EvalBlock, ModelBlock, Stage, TrainBlock
from medtune.trainer.replies.learning import DrawnTo, ReplyLearning
from medtune.trainer.replies.prompts import PromptBatch, PromptMaker
from medtune.trainer.rewards import DrawnReply, Paid, WeighedRewards
from medtune.trainer.training.batches import MicroBatches, loader
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.sampling import ResumableOrder, StepOrder

DRAWS, NEW_TOKENS = 8, 16
STEPS, TIMED_FROM = 5, 1


class PaidByLetters(WeighedRewards):
    """Pays as the function `paid` of bench/other_tools/trl_trainer.py, so that draws of a random model differ."""

    def of(
        self,
        member: int,
        question: Question,
        prediction: Prediction,
        *,
        num_tokens: int,
        most: int,
        verdict: str | None = None,
    ) -> Paid:
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


def order_of(asked: Sequence[MediaGroup], images: int) -> StepOrder:
    return StepOrder(unmixed(asked, rendered, seed=0).row(), batch_size=images, micro_batch_size=images, world_size=1)


class _Given(ReplyLearning):
    """Learns from draws that are given, in the order of the questions."""

    given: tuple[Sequence[Sequence[int]], Sequence[float]]

    def _said(self, batch: PromptBatch, *_: Any, **__: Any) -> Any:
        asked = [(each, shown) for group, shown in zip(batch.groups, batch.shown, strict=False) for each in group]
        return [DrawnTo(each, shown, ()) for each, shown in asked]

    def _paid(self, said: Sequence[DrawnTo], *_: Any, **__: Any) -> Any:
        ids, paid = self.given
        drawn = [DrawnReply("", None, 0.0, len(each), NEW_TOKENS, has_ended=True) for each in ids]
        told = [Paid(total, {}, reply) for total, reply in zip(paid, drawn, strict=True)]
        return [
            [
                (replied(each.prompt.layout, ids[place]), told[place])
                for place in range(DRAWS * number, DRAWS * (number + 1))
            ]
            for number, each in enumerate(said)
        ]


def trained(
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
    template, transform = learner.assembled.template, learner.assembled.transform
    batches = MicroBatches(
        unmixed(asked, rendered, seed=0), order_of(asked, images), rank=0, template=template, transform=transform,
        make=PromptMaker(stage),
    )  # fmt: skip
    numbers = ResumableOrder(epoch_steps=steps, length=steps, accumulate=1, start_step=lambda: trainer.global_step)
    trainer.fit(module, train_dataloaders=loader(batches, numbers, workers=0))
    assert isinstance(batches[0], PromptBatch)
    return clock.ends_s[-1] - clock.ends_s[min(TIMED_FROM, steps) - 1], clock.norms
