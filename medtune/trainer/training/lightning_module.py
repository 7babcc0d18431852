"""The Lightning module: computes the loss, optimizes with AdamW, and validates with torchmetrics.

The loss does not depend on how the groups of a step are distributed over devices and forward passes. The module works
in any Lightning trainer; `medtune run` uses it in one of its own.

Shape legend: T target tokens.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol, get_args, runtime_checkable

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy, ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from medtune.data.json_text import json_value
from medtune.eval.asking.answerer import Answerer
from medtune.eval.predictions.files import format_line
from medtune.models.contract import Assembled
from medtune.models.sharding.lock_step import InTurns, divide, is_divided
from medtune.models.sharding.used_weights import UsedWeights
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.optimizer import build_optimizer, parameters_by_part, share_of_peak
from medtune.models.tuning.plan import Precision, Tuning
from medtune.models.tuning.quantize import NARROW, precise, set_types
from medtune.models.weights.export import assemble_model
from medtune.trainer.devices.ranks import summed
from medtune.trainer.devices.strategies import divides_weights, gradient_divisor, refuse_strategy
from medtune.trainer.losses import Watch, find_loss, learns_from, of_step
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import EvalBlock, ModelBlock, Recipe, Stage, TrainBlock
from medtune.trainer.replies.learning import PaidDraw, ReplyLearning
from medtune.trainer.replies.prompts import PromptBatch
from medtune.trainer.training.batches import MicroBatch
from medtune.trainer.training.learning_states import expect_what_learns, keep_what_learns, refuse_other_names
from medtune.trainer.training.mixture import begins_with_words
from medtune.trainer.training.step_losses import StepLosses
from medtune.trainer.training.validation.asked import VisitBatch
from medtune.trainer.training.validation.measures import Answered, BatchAsker


class FineTuning(pl.LightningModule):
    """Trains the parameters that a tuning lets learn.

    The loss of a step is the mean of its loss's numbers (medtune/trainer/losses), by default the cross entropy, over
    the target tokens (or replies) of the whole step, on all devices and in all forward passes.

    Args:
        assembled: The model that is trained, with its layout of sequences and its transform of media. The parameters
            that learn require gradients.
        stage: How each part learns, the loss, and the schedule. Without `max_steps`, the trainer says how many steps
            there are.
        train: The optimizer, its settings and the seed.
        answers: The limits within which validations answer questions.

    Attributes:
        replies: How the loss's draws or pairs are made; None where the true answers are learnt.
        passed: The last forward pass of a training step.
        draws_first: Called once, in the next training step and before it: ZeRO-3 gathers a weight that a module takes
            from another one only within its own forward pass, until it has seen it there.
        lr: One peak learning rate for all parts that learn, which Lightning's Tuner sets; None takes those of the
            tuning.
    """

    def __init__(
        self, assembled: Assembled, stage: Stage, *, train: TrainBlock, answers: EvalBlock, chosen: ModelBlock
    ) -> None:
        super().__init__()
        self.model = assembled.model
        self.assembled = assembled
        self.stage = stage
        self.answers = answers
        self.chosen = chosen
        self.lr: float | None = None
        self._train = train
        self._loss = find_loss(stage.loss)
        self.replies = (
            None
            if learns_from(stage.loss) == "answers"
            else ReplyLearning(assembled, stage, limits=answers, seed=train.seed)
        )
        self.passed: MicroBatch | None = None
        self.draws_first: Callable[[], None] | None = None
        self._losses = StepLosses()
        self._finished = (0, math.nan)
        self._gradient_norm = math.nan
        self._used: UsedWeights | None = None
        self._asker = BatchAsker(assembled, answers, seed=train.seed)
        nn.Module.register_state_dict_post_hook(self, keep_what_learns)
        nn.Module.register_load_state_dict_post_hook(self, expect_what_learns)
        # Lightning does not switch the model to training mode itself.
        self.model.train()

    @classmethod
    def of_recipe(cls, name: str, overrides: Sequence[str] = ()) -> FineTuning:
        """Returns the module of a recipe's model, in the host's memory and with the recipe's optimizer.

        The trainer says how many steps there are, whatever the recipe says, and the learning rate falls over these.

        Args:
            overrides: Changes of it, for instance "train.seed=1".
        """
        recipe = read_recipe(name, overrides)
        if wrong := _only_for_runs(recipe):
            raise ValueError(f"{wrong}: only `medtune run` can do that; leave it out for a trainer of your own")
        stage = replace(recipe.stages[0], max_steps=None, epochs=None)
        return cls._built(recipe.model, stage, recipe.train, recipe.eval)

    @classmethod
    def of_model(
        cls, name: str, *, weights: str | None = None, tuning: Tuning | None = None, seed: int = 0
    ) -> FineTuning:
        """Returns the module of a model, in the host's memory; the trainer clips gradients and counts the steps.

        Args:
            name: The model: a name of `medtune list models`, or "auto" for any checkpoint of transformers.
            weights: The hub id or folder of other weights.
            tuning: How each part learns; None trains adapters of the language model, and the projector in full.
        """
        block = ModelBlock(name=name, weights=weights, tuning=tuning or Tuning())
        stage = Stage(name="training", tuning=block.tuning)
        return cls._built(block, stage, TrainBlock(seed=seed, clip_norm=0.0), EvalBlock(readings=("likelihood",)))

    @classmethod
    def _built(cls, block: ModelBlock, stage: Stage, train: TrainBlock, answers: EvalBlock) -> FineTuning:
        assembled = assemble_model(block.name, train.seed, block)
        adapt(assembled.model, [stage.tuning], seed=train.seed)
        set_learning(assembled.model, stage.tuning)
        return cls(assembled, stage, train=train, answers=answers, chosen=block)

    def setup(self, stage: str) -> None:
        """Stores each weight in the type in which the trainer's precision uses it, unless it is divided later."""
        refuse_strategy(self.trainer.strategy)
        if not divides_weights(self.trainer.strategy):
            set_types(self.model, self._precision)

    def configure_model(self) -> None:
        """Divides the weights among the ranks under Lightning's ModelParallelStrategy, once."""
        if isinstance(self.trainer.strategy, ModelParallelStrategy) and not is_divided(self.model):
            assert self.device_mesh is not None
            divide(self.model, self._precision, self.device_mesh["data_parallel"])
            self._used = UsedWeights(self.model)

    @property
    def _precision(self) -> Precision:
        known: tuple[Precision, ...] = get_args(Precision)
        found = next((each for each in known if each == str(self.trainer.precision)), None)
        if found is None:
            raise ValueError(
                f"Trainer(precision={self.trainer.precision!r}) stores weights that learn in another type than "
                "float32, in which small steps are kept; take '32-true', 'bf16-mixed' or '16-mixed'"
            )
        return found

    def on_fit_start(self) -> None:
        """Checks that gradients are clipped once."""
        own, others = self._train.clip_norm, self.trainer.gradient_clip_val or 0.0
        if isinstance(self.trainer.strategy, DeepSpeedStrategy):
            if own and own != others:
                raise ValueError(
                    f"train.clip_norm is {own} and DeepSpeed clips gradients itself: give the Trainer "
                    f"gradient_clip_val={own}, or set train.clip_norm=0"
                )
        elif own and others:
            raise ValueError(
                f"train.clip_norm is {own} and Trainer(gradient_clip_val={others}): gradients would be clipped twice. "
                "Set train.clip_norm=0, or leave gradient_clip_val out"
            )

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Returns the batch with its rows on the device; media follow when they are encoded.

        Nothing waits for the transfer. Sizes of pictures stay in the host's memory, where models read them.
        """
        if isinstance(batch, PromptBatch):
            return batch
        if not isinstance(batch, MicroBatch):
            return super().transfer_batch_to_device(batch, device, dataloader_idx)
        return batch._replace(rows=batch.rows.to(device))

    def on_train_start(self) -> None:
        """Begins to count the loss of the first step."""
        self._losses.forget()

    def configure_callbacks(self) -> list[pl.Callback]:
        """Returns the callback that keeps the weights of the beginning, for a loss that compares with them."""
        return [] if self.replies is None or self.replies.start is None else [self.replies.start]

    def training_step(self, batch: MicroBatch | PromptBatch, batch_idx: int) -> Tensor:
        """Returns the loss, multiplied by the number by which the strategy will divide it.

        Nothing waits for its value, so that the backward pass is queued while the forward pass still runs. Replies are
        drawn first, by the same weights.
        """
        watch: Watch = _nobody
        if isinstance(batch, PromptBatch):
            assert self.replies is not None
            if self.draws_first is not None:
                draw, self.draws_first = self.draws_first, None
                draw()
            batch = self.replies.learnt(batch, device=self.device, in_turns=self._in_turns())
            watch = self.replies.watched.of_loss
        self.passed = batch
        # Dropout must not depend on how many steps this process has run, so that a resumed run gives identical results.
        torch.manual_seed(_mixed(self._train.seed, batch.number, self.global_rank))
        encoded = None if batch.media is None else self.model.encode(batch.media)
        loss: Tensor
        loss, logged = self.model(batch.rows, encoded, functools.partial(of_step, self._loss, batch, watch=watch))
        self._losses.add(logged, batch.question_ids)
        if not loss.requires_grad:
            loss = loss + self._nothing()
        return loss * gradient_divisor(
            self.trainer.strategy, world_size=self.trainer.world_size, accumulate=self.trainer.accumulate_grad_batches
        )

    def _nothing(self) -> Tensor:
        """Returns zero as a function of all that learns, for a pass that reached none of it.

        Such are rows without images where only layers learn that attend to images.
        """
        learning = [p for p in self.model.parameters() if p.requires_grad and p.numel()]
        if not learning or is_divided(self.model):
            raise ValueError(
                "model.tuning: a forward pass reached nothing that learns, so that it has no gradient. Is what learns "
                "part of the forward pass, and do the targets of its LoRA lie on the data's way?"
            )
        return torch.stack([0.0 * p.float().sum() for p in learning]).sum()

    def step_loss(self) -> float:
        """Returns the loss of the step that just ended, over all devices; every rank has to call it."""
        if self._finished[0] != self.global_step:
            self._finished = (self.global_step, summed([self._losses.total], self.device)[0])
            self._losses.forget()
        return self._finished[1]

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Logs the loss of each step as "train/loss"."""
        if self._is_last_batch or (batch_idx + 1) % self.trainer.accumulate_grad_batches == 0:
            # Lightning would copy a Python number to the device, and wait for it again to show it.
            loss = torch.tensor(self.step_loss())
            self.log("train/loss", loss, prog_bar=True, on_step=True, on_epoch=False, batch_size=1)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Measures the norm of the whole gradient, then clips it; DeepSpeed does both by itself.

        Lightning's own clipping is not used, because it refuses a fused optimizer under bf16-mixed.
        """
        if isinstance(self.trainer.strategy, DeepSpeedStrategy):
            # It comes here after each pass, and steps after the last one.
            if len(self._losses) == self.trainer.accumulate_grad_batches or self._is_last_batch:
                self._losses.read(step=self.global_step + 1)
            return
        if self._used is not None:
            self._used.take_out_unused(self.model)
        learning = [p for p in self.model.parameters() if p.grad is not None]
        if learning:
            norm = torch.nn.utils.get_total_norm([p.grad for p in learning if p.grad is not None])
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
            if self._train.clip_norm:
                torch.nn.utils.clip_grads_with_norm_(learning, self._train.clip_norm, norm)
            is_scaled = self._precision == "16-mixed"
            self._gradient_norm = self._losses.read(step=self.global_step + 1, norm=norm, is_scaled=is_scaled)
        else:
            self._losses.read(step=self.global_step + 1)

    def on_fit_end(self) -> None:
        """Lets go of the judge of draws."""
        if self.replies is not None and self.replies.judge is not None:
            self.replies.judge.close()

    def drawn(self, batch: PromptBatch) -> list[PaidDraw]:
        """Returns draws to prompts with what they are paid; every rank has to call it with the same ones."""
        assert self.replies is not None
        # Between two steps nothing else says in which type is computed.
        with precise(self._precision, self.device)():
            return self.replies.drawn(batch, device=self.device, in_turns=self._in_turns())

    def take_watched(self) -> dict[str, float]:
        """Returns what draws and pairs told since the last call, as "reward/NAME"; every rank has to call it."""
        return {} if self.replies is None else self.replies.watched.take()

    @property
    def _is_last_batch(self) -> bool:
        return bool(self.trainer.fit_loop.epoch_loop.batch_progress.is_last_batch)

    def take_gradient_norm(self) -> float:
        """Returns the 2-norm of the finished step's gradient before clipping."""
        engine = self.trainer.model
        if isinstance(self.trainer.strategy, DeepSpeedStrategy):
            return float(engine.get_global_grad_norm())  # type: ignore[union-attr, operator]
        return self._gradient_norm

    def configure_optimizers(self) -> Any:
        """Returns AdamW and the schedule of its learning rates, which change after every optimizer step."""
        tuning, stage, precision = self.stage.tuning, self.stage, self.trainer.precision
        if self.lr is not None:
            tuning = Tuning(**{part: replace(how, lr=self.lr) for part, how in tuning.parts().items()})
        groups = parameters_by_part(self.model, tuning, weight_decay=self._train.weight_decay)
        # Lightning does not clip for a fused optimizer under a mixed precision.
        clipped = bool(self.trainer.gradient_clip_val) and precision in NARROW
        optimizer = build_optimizer(self._train.optimizer, groups, scaled_loss=precision == "16-mixed" or clipped)
        steps = _num_steps(self.trainer) if stage.max_steps is None else stage.max_steps
        if math.isinf(steps):
            raise ValueError("the learning rate falls until the last step: give the Trainer max_epochs or max_steps")
        rate_at = functools.partial(
            share_of_peak,
            schedule=stage.schedule,
            max_steps=int(steps),
            warmup_steps=round(steps * stage.warmup_ratio),
            floor=stage.lr_floor,
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_at)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _in_turns(self) -> InTurns | None:
        strategy = self.trainer.strategy
        if not isinstance(strategy, DeepSpeedStrategy) or not strategy.zero_stage_3:
            return None
        from medtune.trainer.devices.zero_in_turns import zero_in_turns

        return functools.partial(zero_in_turns, strategy.model)

    def on_validation_start(self) -> None:
        """Makes the model ready to answer."""
        self._asker.begin(self.device, self._precision, self._in_turns())

    on_test_start = on_predict_start = on_validation_start

    def on_validation_end(self) -> None:
        """Lets go of the model that answered."""
        self._asker.end()

    on_test_end = on_predict_end = on_validation_end

    def answering(self) -> AbstractContextManager[Answerer]:
        """Returns a context that gives what answers questions with this model, which `BenchmarkEvaluation` asks."""
        return self._asker.answering(self.device, self._precision)

    def validation_step(self, batch: VisitBatch, batch_idx: int) -> dict[str, list[Answered]]:
        return {"answered": self._asker.measured(batch)}

    test_step = validation_step

    def predict_step(self, batch: VisitBatch, batch_idx: int) -> list[dict[str, object]]:
        """Returns the answers to the questions of a batch, each with the fields of a line of predictions.jsonl.

        `medtune score` takes a file of such lines. Lightning cannot collect frozen dataclasses.
        """
        answered = self._asker.answered(batch)
        return [json_value(format_line(prediction)) for each in answered for prediction in each.predictions]

    def on_validation_epoch_end(self) -> None:
        """Logs the metrics of the validation: val/loss, val/token_accuracy, val/choice_accuracy, val/f1 and so on."""
        self._log_measures("val")

    def on_test_epoch_end(self) -> None:
        """Logs the same with "test" in front, and the benchmark's own metrics as `medtune score` computes them."""
        self._log_measures("test", self._asker.scores())

    def _log_measures(self, phase: str, scores: Mapping[str, float] = MappingProxyType({})) -> None:
        for name, value in {**self._asker.compute(), **scores}.items():
            # The states were joined already, so that all ranks have the same value.
            self.log(f"{phase}/{name}", value, prog_bar=name == "loss", sync_dist=True, batch_size=1)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses a saved state of another model or tuning."""
        refuse_other_names(checkpoint.get("state_dict", ()), self)


@runtime_checkable
class CountsSteps(Protocol):
    """Data that know how many optimizer steps a trainer will make, without opening a loader."""

    def num_steps(self) -> float:
        """Returns the number of optimizer steps; infinity if nothing says."""
        ...


def _num_steps(trainer: pl.Trainer) -> float:
    data = getattr(trainer, "datamodule", None)
    # Lightning's own estimate opens the loader before a saved state is read, which says where the loader begins.
    return data.num_steps() if isinstance(data, CountsSteps) else trainer.estimated_stepping_batches


def _only_for_runs(recipe: Recipe) -> str:
    train, model = recipe.train, recipe.model
    found = {
        "train.stages": bool(train.stages),
        "train.ema_decay": train.ema_decay is not None,
        "train.early_stopping": train.early_stopping is not None,
        "model.endpoint": model.endpoint is not None,
        "model.checkpoint": model.checkpoint is not None,
        "model.language_bits": model.language_bits is not None,
        "train.gradient_checkpointing": train.gradient_checkpointing,
        "train.replies.num_iterations": train.replies.num_iterations > 1,
    }
    starts = {how.lora.init for how in recipe.stages[0].tuning.parts().values() if how.mode == "lora"}
    found["model.tuning.*.lora.init"] = "pissa" in starts
    found["model.projector vocabulary"] = begins_with_words(recipe)
    return ", ".join(name for name, is_set in found.items() if is_set)


def _nobody(numbers: Mapping[str, Tensor]) -> None:
    """Watches nothing."""


def _mixed(*numbers: int) -> int:
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**31 - 1)
    return mixed
