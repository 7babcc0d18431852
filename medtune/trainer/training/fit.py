"""Trains one stage: gives module, data, strategy and callbacks to a Lightning trainer and runs it to the last step.

Lightning is told how the processes were started. Left to itself, it takes every process with SLURM_NTASKS for a task of
srun: in a batch script all ranks of torchrun would be rank 0 of one. Its own handlers for SLURM write hpc_ckpt_1.ckpt
into the working directory, and every later training there would begin with it.
"""

import contextlib
import hashlib
import logging
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from medtune.data.progress import OnDone, clock, progress
from medtune.models.media_reader import lost_readers_named
from medtune.models.tuning.apply import GradientAudit
from medtune.models.tuning.plan import Tuning
from medtune.trainer.devices.peak_flops import work_of
from medtune.trainer.devices.ranks import summed
from medtune.trainer.devices.strategies import build_strategy, end_engine
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.judging import SPENDING
from medtune.trainer.experiment.load_model import TrainableModel
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.launch.started import Started
from medtune.trainer.launch.stop import listening
from medtune.trainer.losses import steps_per_draw
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.replies.check import draws
from medtune.trainer.replies.shown_draws import DrawsShown
from medtune.trainer.seen import asks_the_same
from medtune.trainer.training.checkpoints import Checkpoints, ContinuedTraining, SavedState, ValidationSteps
from medtune.trainer.training.data_module import QuestionData
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage, planned_stages
from medtune.trainer.training.state_folder import SavedFacts
from medtune.trainer.training.step_callbacks import (
    EarlyStop,
    StepLog,
    StopRequest,
    ValidationStoppedError,
    WeightAverage,
    step_done,
)
from medtune.trainer.training.validation.benchmark_evaluation import BenchmarkEvaluation


class StepProgress(Callback):
    """Shows how many steps of the stage are done, and the time that is left of it and of the whole run."""

    def __init__(self, experiment: Experiment, planned: PlannedStage, *, validated_images: int, shown: bool) -> None:
        self._open = contextlib.ExitStack()
        self._shown = shown
        self._on_done: OnDone | None = None
        self._left = experiment.left
        self._left.validated_images = validated_images
        self._recipe = experiment.recipe
        self._planned = planned
        self._validation_began_s = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begins with the steps that were done before, in a run that goes on."""
        self._on_done = self._open.enter_context(progress("training", unit="steps", shown=self._shown))
        self._on_done(trainer.global_step, trainer.max_steps)
        self._left.step_begins()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert self._on_done is not None
        assert isinstance(pl_module, FineTuning)
        if step_done(trainer, batch_idx):
            step = self._planned.first_step + trainer.global_step
            self._left.step_done(
                steps_left=self._recipe.total_steps - step, validations_left=self._validations_after(step)
            )
            left_s = self._left.of_run_s
            said = "" if left_s is None else f", {clock(left_s)} left of the run"
            self._on_done(trainer.global_step, trainer.max_steps, f"loss {pl_module.step_loss():.3f}{said}")

    def _validations_after(self, step: int) -> int:
        every, found = self._recipe.eval.every_steps, 0
        for stage in planned_stages(self._recipe):
            done, steps = max(step - stage.first_step, 0), stage.stage.steps
            if done < steps:
                # As `is_validated` says: after every so many steps, and after the last one.
                found += steps // every - done // every + (steps % every > 0)
        return found

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._validation_began_s = time.monotonic()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._left.answered(self._left.validated_images, time.monotonic() - self._validation_began_s)
        self._left.step_begins()

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Says that a validation goes on, during which no step is done."""
        if self._on_done is not None:
            self._on_done(trainer.global_step, trainer.max_steps, "validating")

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._open.close()


class GradientCheck(Callback):
    """Stops the run after its first step if a trainable part got no gradient, or a frozen part got one.

    In a step without media, the vision tower and the projector get no gradient. The check is therefore made at the
    first step with media, or at the first step if the stage never shows media.
    """

    def __init__(self, tuning: Tuning, *, shows_media: bool) -> None:
        self._tuning = tuning
        self._shows_media = shows_media
        self._shown = self._taught = 0
        self._audit: GradientAudit | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, FineTuning)
        self._audit = GradientAudit(pl_module.model, self._tuning)

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Looks at the gradients that can be seen only now."""
        if self._audit is not None:
            self._audit.look()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Checks the gradients at the end of the first step with media that has anything to teach."""
        assert isinstance(pl_module, FineTuning)
        if self._audit is None or pl_module.passed is None:
            return
        if pl_module.passed.teaches:
            self._shown += pl_module.passed.num_shown
            self._taught += 1
        if step_done(trainer, batch_idx):
            here = self._audit.reached()
            counts = (self._shown, self._taught, *here.values())
            shown, taught, *anywhere = summed([float(each) for each in counts], pl_module.device)
            if taught and (shown or not self._shows_media):
                audit, self._audit = self._audit, None
                audit.judge({name: count > 0 for name, count in zip(here, anywhere, strict=True)})


class StartedEnvironment(TorchElasticEnvironment):
    """The place of this process among those of the run, as `how_started` found it."""

    def __init__(self, started: Started) -> None:
        super().__init__()
        self._started = started

    @property
    def main_address(self) -> str:
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        return int(os.environ.get("MASTER_PORT", "29500"))

    def world_size(self) -> int:
        return self._started.world_size

    def global_rank(self) -> int:
        """The number of this process among all."""
        return self._started.rank

    def local_rank(self) -> int:
        """The number of this process among those of its machine."""
        return self._started.local_rank

    def node_rank(self) -> int:
        return self._started.node_rank


def keep_to_run_folder(trainer: Any, root: Path) -> None:
    """Takes from a trainer what it would read or do outside of our control.

    Lightning's handler of SIGTERM waits for the other ranks inside the signal handler, where each rank is at another
    place; `medtune.trainer.launch.stop` handles all signals. Lightning also reads the newest hpc_ckpt_N.ckpt of its
    `default_root_dir` wherever SLURM_NTASKS is set, whatever its environment is.
    """
    if found := sorted(root.glob("hpc_ckpt_*")):
        raise ValueError(f"{found[0]}: Lightning would begin with these weights; no run writes this file, remove it")
    assert isinstance(trainer, pl.Trainer)
    assert Path(trainer.default_root_dir) == root
    trainer._signal_connector.register_signal_handlers = _leave_alone  # type: ignore[method-assign]


def _leave_alone() -> None:
    return None


def fit(experiment: Experiment, planned: PlannedStage, model: TrainableModel, loggers: Sequence[Logger]) -> bool:
    """Trains the model in place; continues from the run folder's saved state if the state belongs to this stage.

    Returns:
        True when the stage was trained to its end; False if a signal asked to stop, and the state was saved.
    """
    recipe, stage, folder = experiment.recipe, planned.stage, experiment.folder
    module = FineTuning(model.assembled, stage, train=recipe.train, answers=recipe.eval, chosen=recipe.model)
    opened = OpenedData(recipe, experiment.prepared, experiment.benchmark, experiment.training_sets)
    data = QuestionData(opened, module, stage, limit=experiment.limit, spending=experiment.folder.root / SPENDING)
    stop = StopRequest()
    if recipe.train.divides_weights:
        # The narrow copy of each weight that learns would be kept until the end of a pass, that is, a whole model.
        torch.set_autocast_cache_enabled(False)
    progress_of = StepProgress(
        experiment, planned, validated_images=len(data.validation.groups), shown=experiment.rank == 0
    )
    callbacks = [*_callbacks(experiment, planned, model, data, stop, loggers), progress_of]
    accumulate = data.order(experiment.world_size).accumulate
    # It says which devices there are, as the run has said already, and advertises.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    trainer = _trainer(experiment, planned, callbacks, accumulate=accumulate)
    with warnings.catch_warnings(), listening(), contextlib.suppress(ValidationStoppedError), lost_readers_named():
        # The first warning does not apply: the sampler starts at the saved step, which Lightning cannot know.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training")
        warnings.filterwarnings("ignore", message="The '(train|val)_dataloader' does not have many workers")
        warnings.filterwarnings("ignore", message="You have overridden `transfer_batch_to_device`")
        warnings.filterwarnings("ignore", message="`isinstance\\(treespec, LeafSpec\\)` is deprecated")
        trainer.fit(module, datamodule=data)
    end_engine(trainer.strategy)
    if why := folder.early_stops.get(planned.number):
        experiment.say(f"stage {planned.number}, {stage.name}: {why}")
    return not stop.asked


def _trainer(
    experiment: Experiment, planned: PlannedStage, callbacks: list[pl.Callback], *, accumulate: int
) -> pl.Trainer:
    train, stage = experiment.recipe.train, planned.stage
    if train.precision == "auto":
        raise ValueError("train.precision 'auto' has to be resolved for the device first")
    root = experiment.folder.root / "lightning"
    trainer = pl.Trainer(
        accelerator="cuda" if experiment.device.type == "cuda" else "cpu",
        strategy=build_strategy(
            train.strategy, world_size=experiment.world_size, device=experiment.device, precision=train.precision
        ),
        num_nodes=train.nodes,
        devices=train.devices,
        plugins=[StartedEnvironment(experiment.started)],
        default_root_dir=root,
        precision=train.precision,
        max_steps=stage.steps,
        max_epochs=-1,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=train.clip_norm if train.strategy.startswith("deepspeed") and train.clip_norm else None,
        deterministic="warn" if train.deterministic else False,
        # The loggers count the steps of all stages, so the callbacks log to them.
        logger=False,
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        # `ValidationSteps` says when.
        check_val_every_n_epoch=None,
        val_check_interval=stage.steps * accumulate,
        # A tensor that a model keeps from a validation must not be one that training cannot use.
        inference_mode=False,
    )
    keep_to_run_folder(trainer, root)
    return trainer


def _callbacks(
    experiment: Experiment,
    planned: PlannedStage,
    model: TrainableModel,
    data: QuestionData,
    stop: StopRequest,
    loggers: Sequence[Logger],
) -> list[pl.Callback]:
    recipe, folder, benchmark = experiment.recipe, experiment.folder, experiment.benchmark
    decay, stopping = recipe.train.ema_decay, recipe.train.early_stopping
    early = None if stopping is None else EarlyStop(stopping, benchmark, planned)
    evaluation = BenchmarkEvaluation.of_run(experiment, data.validation, first_step=planned.first_step, loggers=loggers)
    facts = SavedFacts(planned.first_step, _made_with(experiment))
    # A state that was saved before this stage's first step belongs to the stage before it, with another optimizer.
    state = folder.saved_state() if folder.saved_step() > planned.first_step else None
    if decay is not None:
        experiment.say(f"validations and checkpoints use the moving average of the weights (train.ema_decay {decay})")
    return [
        *([] if state is None else [ContinuedTraining(state, facts)]),
        GradientCheck(planned.stage.tuning, shows_media=recipe.train.text_only_share < 1),
        StepLog(experiment, planned, loggers, stop, work_of(model.assembled.model)),
        *([_draws_shown(experiment, planned, loggers)] if draws(planned.stage) else []),
        ValidationSteps(every_steps=recipe.eval.every_steps),
        evaluation,
        *([] if early is None else [early]),
        Checkpoints(experiment, planned, model, score=evaluation.score, early=early),
        *([] if decay is None else [WeightAverage(model.assembled.model, decay)]),
        SavedState(folder, facts, recipe.train, stop, steps_per_draw=steps_per_draw(planned.stage)),
    ]


def _draws_shown(experiment: Experiment, planned: PlannedStage, loggers: Sequence[Logger]) -> DrawsShown:
    every_steps = experiment.recipe.eval.every_steps
    return DrawsShown(experiment.folder.root, loggers, first_step=planned.first_step, every_steps=every_steps)


def _made_with(experiment: Experiment) -> dict[str, str | int]:
    recipe = experiment.recipe
    return {
        "strategy": recipe.train.strategy,
        "nodes": recipe.train.nodes,
        "devices": recipe.train.devices,
        "data_hash": experiment.prepared.data_hash,
        "recipe_hash": hashlib.sha256(recipe_to_yaml(asks_the_same(recipe)).encode()).hexdigest(),
    }
