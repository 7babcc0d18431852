"""Trains one stage: gives module, data, strategy and callbacks to a Lightning trainer and runs it to the last step."""

import contextlib
import hashlib
import warnings
from collections.abc import Sequence

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import Logger

from medtune.models.loaded_ahead import lost_readers_named
from medtune.models.weights.base_samples import BASE, base_samples
from medtune.trainer.devices.release import end_engine
from medtune.trainer.devices.strategies import build_strategy
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import TrainableModel, about_weights, adapter_base
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.launch.lightning_environment import StartedEnvironment, keep_to_run_folder
from medtune.trainer.launch.stop import listening
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.seen.changed_settings import asks_the_same
from medtune.trainer.training.callbacks.checkpoints import Checkpoints, ValidationSteps
from medtune.trainer.training.callbacks.early_stopping import EarlyStop
from medtune.trainer.training.callbacks.gradient_check import GradientCheck
from medtune.trainer.training.callbacks.progress import Progress
from medtune.trainer.training.callbacks.step_log import StepLog, StopRequest, ValidationStoppedError
from medtune.trainer.training.callbacks.weight_average import WeightAverage
from medtune.trainer.training.data_module import QuestionData
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.states.folder import SavedFacts
from medtune.trainer.training.states.saving import Continued, SavedState
from medtune.trainer.training.validation.record import ValidationRecord


def fit(
    experiment: Experiment,
    planned: PlannedStage,
    model: TrainableModel,
    loggers: Sequence[Logger],
    *,
    watching: Sequence[pl.Callback] | None = None,
) -> bool:
    """Trains the model in place; continues from the run folder's saved state if the state belongs to this stage.

    Args:
        experiment: The experiment that the stage belongs to.
        planned: The stage.
        model: The model at the beginning of the stage.
        loggers: The loggers of the run.
        watching: Callbacks that are called after all others, in place of the progress bar; None shows the bar.

    Returns:
        True when the stage was trained to its end; False if a signal asked to stop, and the state was saved.

    Raises:
        NonFiniteLossError: The loss is infinite or not a number.
    """
    recipe, stage, folder = experiment.recipe, planned.stage, experiment.folder
    module = FineTuning(model.assembled, stage, train=recipe.train, answers=recipe.eval, chosen=recipe.model)
    opened = OpenedData(recipe, experiment.prepared, experiment.benchmark, experiment.training_sets)
    data = QuestionData(opened, module, stage, limit=experiment.limit)
    stop = StopRequest()
    if recipe.train.divides_weights:
        # The narrow copy of each weight that learns would be kept until the end of a pass, that is, a whole model.
        torch.set_autocast_cache_enabled(False)
    last = [Progress()] if watching is None else watching
    callbacks = [*_callbacks(experiment, planned, model, data, stop, loggers), *last]
    accumulate = data.order(experiment.world_size).accumulate
    trainer = _trainer(experiment, planned, callbacks, accumulate=accumulate)
    with warnings.catch_warnings(), listening(), contextlib.suppress(ValidationStoppedError), lost_readers_named():
        # The first warning does not apply: the sampler starts at the saved step, which Lightning cannot know.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training")
        warnings.filterwarnings("ignore", message="The '(train|val)_dataloader' does not have many workers")
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
        enable_progress_bar=any(isinstance(each, Progress) for each in callbacks),
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
    record = ValidationRecord(experiment, planned, data.validation, loggers)
    facts = SavedFacts(planned.first_step, _made_with(experiment))
    # A state that was saved before this stage's first step belongs to the stage before it, with another optimizer.
    state = folder.saved_state() if folder.saved_step() > planned.first_step else None
    if decay is not None:
        experiment.say(f"validations and checkpoints use the moving average of the weights (train.ema_decay {decay})")
    return [
        *([] if state is None else [Continued(state, facts)]),
        GradientCheck(planned.stage.tuning, shows_media=recipe.train.text_only_share < 1),
        StepLog(
            planned,
            loggers,
            every_steps=recipe.log.every_steps,
            stop=stop,
            timeout_minutes=recipe.train.timeout_minutes,
        ),
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
                **experiment.learnt.facts(),
                BASE: base_samples(model.assembled.model, model.learnt),
            },
            starts=model.starts,
            gathers=_gathers(recipe),
            base=adapter_base(recipe),
        ),
        *([] if decay is None else [WeightAverage(model.assembled.model, decay)]),
        SavedState(folder, facts, recipe.train, stop),
    ]


def _gathers(recipe: Recipe) -> bool:
    """Returns whether what a run trains is written as one file; else every rank writes its part.

    Adapters and projectors are small. A tower or a language model that learns itself is not, and where it is divided
    among the devices, no host may have room for it.
    """
    learning = [how for stage in recipe.stages for part, how in stage.tuning.parts().items() if part != "projector"]
    return not recipe.train.divides_weights or all(how.mode in ("frozen", "lora") for how in learning)


def _made_with(experiment: Experiment) -> dict[str, str | int]:
    recipe = experiment.recipe
    return {
        "strategy": recipe.train.strategy,
        "nodes": recipe.train.nodes,
        "devices": recipe.train.devices,
        "data_hash": experiment.prepared.data_hash,
        "recipe_hash": hashlib.sha256(recipe_to_yaml(asks_the_same(recipe)).encode()).hexdigest(),
    }
