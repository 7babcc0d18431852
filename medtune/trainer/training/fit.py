"""Trains one stage: gives module, data, strategy and callbacks to a Lightning trainer and runs it to the last step."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger

from medtune.models.contract import Assembled
from medtune.models.weights.base_samples import BASE, base_samples
from medtune.models.weights.checkpoint import trainable_names
from medtune.trainer.devices.strategies import build_strategy, copied
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import TrainableModel, about_weights, adapter_base
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.training.callbacks.checkpoints import Checkpoints, SavedState, ValidationSteps
from medtune.trainer.training.callbacks.early_stopping import EarlyStop
from medtune.trainer.training.callbacks.gradient_check import GradientCheck
from medtune.trainer.training.callbacks.progress import Progress
from medtune.trainer.training.callbacks.step_log import StepLog, StopRequest
from medtune.trainer.training.callbacks.weight_average import WeightAverage
from medtune.trainer.training.data_module import QuestionData
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.validation.record import ValidationRecord


def fit(experiment: Experiment, planned: PlannedStage, model: TrainableModel, loggers: Sequence[Logger]) -> bool:
    """Trains the model in place; continues from the run folder's saved state if the state belongs to this stage.

    Returns:
        True when the stage was trained to its end; False if Ctrl-C or SIGTERM asked to stop, and the state was saved.

    Raises:
        NonFiniteLossError: The loss is infinite or not a number.
        ValueError: A trainable part got no gradient, a frozen part got one, or the split val is empty.
    """
    recipe, stage, folder = experiment.recipe, planned.stage, experiment.folder
    module = FineTuning(
        model.assembled,
        stage,
        train=recipe.train,
        answers=recipe.eval,
        chosen=recipe.model,
        evaluated=_evaluated(experiment, model.assembled),
    )
    opened = OpenedData(recipe, experiment.prepared, experiment.benchmark, experiment.training_sets)
    data = QuestionData(opened, module, stage, limit=experiment.limit)
    stop = StopRequest()
    trainer = _trainer(experiment, planned, _callbacks(experiment, planned, model, data, stop, loggers))
    # A state that was saved before this stage's first step belongs to the stage before it, with another optimizer.
    state = folder.saved_state() if folder.saved_step() > planned.first_step else None
    with warnings.catch_warnings():
        # The first warning does not apply: the sampler starts at the saved step, which Lightning cannot know.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training")
        warnings.filterwarnings("ignore", message="The '(train|val)_dataloader' does not have many workers")
        trainer.fit(
            module,
            datamodule=data,
            ckpt_path=None if state is None else str(state),
            weights_only=not recipe.train.strategy.startswith("deepspeed"),
        )
    if why := folder.early_stops.get(planned.number):
        experiment.say(f"stage {planned.number}, {stage.name}: {why}")
    return not stop.asked


def _trainer(experiment: Experiment, planned: PlannedStage, callbacks: list[pl.Callback]) -> pl.Trainer:
    train, stage = experiment.recipe.train, planned.stage
    if train.precision == "auto":
        raise ValueError("train.precision 'auto' has to be resolved for the device first")
    accumulate = math.ceil(stage.batch_size / (stage.micro_batch_size * experiment.world_size))
    return pl.Trainer(
        accelerator="cuda" if experiment.device.type == "cuda" else "cpu",
        strategy=build_strategy(
            train.strategy, world_size=experiment.world_size, device=experiment.device, precision=train.precision
        ),
        devices=train.devices,
        precision=train.precision,
        max_steps=stage.steps,
        max_epochs=-1,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=train.clip_norm if train.strategy.startswith("deepspeed") and train.clip_norm else None,
        deterministic="warn",
        # The loggers count the steps of all stages, so the callbacks log to them.
        logger=False,
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        # `ValidationSteps` says when.
        check_val_every_n_epoch=None,
        val_check_interval=stage.steps * accumulate,
        # A tensor that a model keeps from a validation must not be one that training cannot use.
        inference_mode=False,
    )


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
    record = ValidationRecord(experiment, planned, data.validation, loggers)
    if decay is not None:
        experiment.say(f"validations and checkpoints use the moving average of the weights (train.ema_decay {decay})")
    return [
        GradientCheck(planned.stage.tuning, shows_media=recipe.train.text_only_share < 1),
        StepLog(planned, loggers, every_steps=recipe.log.every_steps, stop=stop),
        ValidationSteps(every_steps=recipe.eval.every_steps),
        record,
        *([] if early is None else [early]),
        Checkpoints(
            folder,
            planned,
            model.learnt,
            score=record.score,
            higher_is_better=benchmark.higher_is_better,
            early=early,
            about={
                **experiment.about,
                **about_weights(recipe),
                BASE: base_samples(model.assembled.model, model.learnt),
            },
            starts=model.starts,
            base=adapter_base(recipe),
        ),
        *([] if decay is None else [WeightAverage(model.assembled.model, decay)]),
        SavedState(folder, planned, stop),
        Progress(),
    ]


def _evaluated(experiment: Experiment, assembled: Assembled) -> Callable[[], AbstractContextManager[Assembled]]:
    """Returns a function that gives the model that validations ask, as a context.

    Without ZeRO-3 it is the trained model itself. Under ZeRO-3 it is a complete copy on each rank, into which the
    trained weights are copied each time. The sharded model itself cannot be used, because all ranks would have to run
    it in lockstep, and they have different numbers of questions. Between evaluations the copy is kept in CPU memory.
    """
    if experiment.recipe.train.strategy != "deepspeed_stage_3":
        return lambda: nullcontext(assembled)
    twin = copy.deepcopy(assembled.model).cpu()

    @contextmanager
    def refreshed() -> Iterator[Assembled]:
        twin.load_state_dict(copied(assembled.model, trainable_names(assembled.model)), strict=False)
        yield replace(assembled, model=twin.to(experiment.device))
        twin.cpu()

    return refreshed
