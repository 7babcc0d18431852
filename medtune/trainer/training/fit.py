"""Trains one stage: puts model, data, strategy and callbacks into a Lightning trainer and runs it to its last step."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger

from medtune.models.contract import Assembled
from medtune.models.weights.checkpoint import trainable_names
from medtune.trainer.experiment.evaluate import Experiment, evaluate_phase, groups_of
from medtune.trainer.experiment.load_model import Tuned, about_weights
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.experiment.strategies import build_strategy, copied, gradient_divisor
from medtune.trainer.training.batches import loader, recipe_batches
from medtune.trainer.training.callbacks import (
    Checkpoints,
    GradientCheck,
    Progress,
    StepLog,
    StopRequest,
    saved_state,
    saved_step,
)
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.mixture import Folder, train_data
from medtune.trainer.training.phase_metrics import phase_metrics
from medtune.trainer.training.sampling import ResumableOrder, StepOrder
from medtune.trainer.training.stages import Part


def fit(
    experiment: Experiment,
    folders: Sequence[Folder],
    part: Part,
    tuned: Tuned,
    folder: RunFolder,
    *,
    loggers: list[Logger],
    limit: int | None,
    about: dict[str, str],
) -> bool:
    """Trains the model in place, from the folder's saved state where it is one of this stage.

    Returns:
        False if someone asked to stop before the stage's last step; the state is saved then.

    Raises:
        NonFiniteLossError: The loss is not a number.
        ValueError: A group that should learn does not, or the other way round; or the split val is empty.
    """
    recipe, assembled = experiment.recipe, tuned.assembled
    data = train_data(recipe, part.stage, folders, limit=limit)
    batches = recipe_batches(part.stage, data, assembled, rank=experiment.rank, world_size=experiment.world_size)
    order = batches.order
    stop = StopRequest()
    trainer = _trainer(
        experiment, part, order, loggers, _callbacks(experiment, part, tuned, folder, stop, limit, about)
    )
    sampler = ResumableOrder(
        max_steps=part.stage.steps, accumulate=order.accumulate, start_step=lambda: trainer.global_step
    )
    # What was saved before this stage's first step is of the stage before it, with another optimizer.
    state = saved_state(folder.checkpoints) if saved_step(folder.checkpoints) > part.first_step else None
    # Lightning trains in whatever mode a model comes in.
    assembled.model.train()
    with warnings.catch_warnings():
        # Our sampler starts at the saved step; Lightning cannot know.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training")
        warnings.filterwarnings("ignore", message="The 'train_dataloader' does not have many workers")
        trainer.fit(
            _module(experiment, part, assembled, order),
            train_dataloaders=loader(batches, sampler, workers=recipe.data.workers),
            ckpt_path=None if state is None else str(state),
            weights_only=not recipe.train.strategy.startswith("deepspeed"),
        )
    return not stop.asked


def _trainer(
    experiment: Experiment, part: Part, order: StepOrder, loggers: list[Logger], callbacks: list[pl.Callback]
) -> pl.Trainer:
    train = experiment.recipe.train
    if train.precision == "auto":
        raise ValueError("train.precision 'auto' has to be resolved for the device first")
    return pl.Trainer(
        accelerator="cuda" if experiment.device.type == "cuda" else "cpu",
        strategy=build_strategy(train.strategy, world_size=experiment.world_size, device=experiment.device),
        devices=train.devices,
        precision=train.precision,
        max_steps=part.stage.steps,
        max_epochs=-1,
        accumulate_grad_batches=order.accumulate,
        gradient_clip_val=train.clip_norm if train.strategy.startswith("deepspeed") and train.clip_norm else None,
        use_distributed_sampler=False,
        deterministic="warn",
        logger=loggers,
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        num_sanity_val_steps=0,
    )


def _module(experiment: Experiment, part: Part, assembled: Assembled, order: StepOrder) -> FineTuning:
    train, stage = experiment.recipe.train, part.stage
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
    experiment: Experiment,
    part: Part,
    tuned: Tuned,
    folder: RunFolder,
    stop: StopRequest,
    limit: int | None,
    about: dict[str, str],
) -> list[pl.Callback]:
    recipe = experiment.recipe
    questions = recipe.eval.val_questions if limit is None else min(limit, recipe.eval.val_questions)
    groups = groups_of(experiment.prepared, "val", questions=questions, seed=recipe.train.seed)
    answering = _answering(experiment, tuned.assembled)

    def evaluate(step: int) -> tuple[float, dict[str, float]]:
        with answering() as current:
            scores = evaluate_phase(
                experiment,
                current,
                groups,
                out_dir=folder.validation(step),
                conditions=("image",),
                title=f"validation, step {step}",
            )
        return scores.overall.score.value, phase_metrics("validation", scores, experiment.benchmark)

    return [
        GradientCheck(part.stage.tuning, shows_media=recipe.train.text_only_share < 1),
        StepLog(part, every_steps=recipe.log.every_steps, stop=stop),
        Checkpoints(
            folder.checkpoints,
            part,
            tuned.learnt,
            every_steps=recipe.eval.every_steps,
            evaluate=evaluate,
            higher_is_better=experiment.benchmark.higher_is_better,
            stop=stop,
            about={**about, **about_weights(recipe)},
        ),
        Progress(),
    ]


def _answering(experiment: Experiment, assembled: Assembled) -> Callable[[], AbstractContextManager[Assembled]]:
    """Returns what gives the model to evaluate.

    Under ZeRO-3 that is a whole twin which takes over the trained weights each time: a sharded model answers only
    while all ranks run it in step, and they have different numbers of questions. Between evaluations it waits in
    CPU memory.
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
