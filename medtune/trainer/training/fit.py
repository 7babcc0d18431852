"""Trains one stage: gives model, data, strategy and callbacks to a Lightning trainer and runs it to the last step."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger

from medtune.models.contract import Assembled
from medtune.models.weights.base_samples import BASE, base_samples
from medtune.models.weights.checkpoint import trainable_names
from medtune.trainer.devices.strategies import build_strategy, copied, gradient_divisor
from medtune.trainer.experiment.asked_model import LoadedModel
from medtune.trainer.experiment.evaluate import evaluate_phase, validation_groups
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import TrainableModel, about_weights
from medtune.trainer.training.batches import loader, stage_batches
from medtune.trainer.training.callbacks import Checkpoints, GradientCheck, Progress, StepLog, StopRequest
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.phase_metrics import phase_metrics
from medtune.trainer.training.sampling import ResumableOrder, StepOrder
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.validation_metrics import classification_metrics


def fit(experiment: Experiment, planned: PlannedStage, model: TrainableModel, loggers: Sequence[Logger]) -> bool:
    """Trains the model in place; continues from the run folder's saved state if the state belongs to this stage.

    Returns:
        True when the stage was trained to its end; False if Ctrl-C or SIGTERM asked to stop, and the state was saved.

    Raises:
        NonFiniteLossError: The loss is infinite or not a number.
        ValueError: A trainable part got no gradient, a frozen part got one, or the split val is empty.
    """
    recipe, stage, assembled, folder = experiment.recipe, planned.stage, model.assembled, experiment.folder
    mixture = stage_mixture(recipe, stage, experiment.training_sets, limit=experiment.limit)
    batches = stage_batches(mixture, stage, assembled, rank=experiment.rank, world_size=experiment.world_size)
    order = batches.order
    stop = StopRequest()
    trainer = _trainer(experiment, planned, order, loggers, _callbacks(experiment, planned, model, stop))
    sampler = ResumableOrder(max_steps=stage.steps, accumulate=order.accumulate, start_step=lambda: trainer.global_step)
    # A state that was saved before this stage's first step belongs to the stage before it, with another optimizer.
    state = folder.saved_state() if folder.saved_step() > planned.first_step else None
    # Lightning does not switch the model to training mode itself.
    assembled.model.train()
    with warnings.catch_warnings():
        # The first warning does not apply: the sampler below starts at the saved step, which Lightning cannot know.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training")
        warnings.filterwarnings("ignore", message="The 'train_dataloader' does not have many workers")
        trainer.fit(
            _module(experiment, planned, assembled, order),
            train_dataloaders=loader(batches, sampler, workers=recipe.data.workers),
            ckpt_path=None if state is None else str(state),
            weights_only=not recipe.train.strategy.startswith("deepspeed"),
        )
    return not stop.asked


def _trainer(
    experiment: Experiment,
    planned: PlannedStage,
    order: StepOrder,
    loggers: Sequence[Logger],
    callbacks: list[pl.Callback],
) -> pl.Trainer:
    train = experiment.recipe.train
    if train.precision == "auto":
        raise ValueError("train.precision 'auto' has to be resolved for the device first")
    return pl.Trainer(
        accelerator="cuda" if experiment.device.type == "cuda" else "cpu",
        strategy=build_strategy(
            train.strategy, world_size=experiment.world_size, device=experiment.device, precision=train.precision
        ),
        devices=train.devices,
        precision=train.precision,
        max_steps=planned.stage.steps,
        max_epochs=-1,
        accumulate_grad_batches=order.accumulate,
        gradient_clip_val=train.clip_norm if train.strategy.startswith("deepspeed") and train.clip_norm else None,
        use_distributed_sampler=False,
        deterministic="warn",
        logger=list(loggers),
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        num_sanity_val_steps=0,
    )


def _module(experiment: Experiment, planned: PlannedStage, assembled: Assembled, order: StepOrder) -> FineTuning:
    train, stage = experiment.recipe.train, planned.stage
    return FineTuning(
        assembled.model,
        stage.tuning,
        max_steps=stage.steps,
        warmup_ratio=stage.warmup_ratio,
        optimizer=train.optimizer,
        weight_decay=train.weight_decay,
        clip_norm=train.clip_norm,
        gradient_divisor=gradient_divisor(
            train.strategy, world_size=experiment.world_size, accumulate=order.accumulate
        ),
        seed=train.seed,
    )


def _callbacks(
    experiment: Experiment, planned: PlannedStage, model: TrainableModel, stop: StopRequest
) -> list[pl.Callback]:
    recipe, folder = experiment.recipe, experiment.folder
    groups = validation_groups(experiment)
    answering = _answering(experiment, model.assembled)

    def evaluate(step: int) -> tuple[float, dict[str, float]]:
        with answering() as current:
            scores = evaluate_phase(
                experiment,
                LoadedModel(experiment, current),
                groups,
                out_dir=folder.validation(step),
                conditions=("image",),
                title=f"validation, step {step}",
            )
        benchmark = experiment.benchmark
        logged = classification_metrics("validation", scores, facet=benchmark.class_facet)
        return scores.overall.score.value, logged | phase_metrics("validation", scores, benchmark)

    return [
        GradientCheck(planned.stage.tuning, shows_media=recipe.train.text_only_share < 1),
        StepLog(planned, every_steps=recipe.log.every_steps, stop=stop),
        Checkpoints(
            folder,
            planned,
            model.learnt,
            every_steps=recipe.eval.every_steps,
            evaluate=evaluate,
            higher_is_better=experiment.benchmark.higher_is_better,
            stop=stop,
            about={
                **experiment.about,
                **about_weights(recipe),
                BASE: base_samples(model.assembled.model, model.learnt),
            },
        ),
        Progress(),
    ]


def _answering(experiment: Experiment, assembled: Assembled) -> Callable[[], AbstractContextManager[Assembled]]:
    """Returns a function that gives the model to evaluate, as a context.

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
