"""Trains: puts model, data, strategy and callbacks into a Lightning trainer and runs it to the last step."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger

from medtune.models.vlm import Assembled
from medtune.trainer.batches import loader, recipe_batches
from medtune.trainer.callbacks import Checkpoints, GradientCheck, Progress, StepLog, StopRequest, saved_state
from medtune.trainer.evaluation import Bench, evaluate_stage, groups_of
from medtune.trainer.module import FineTuning
from medtune.trainer.order import ResumableOrder, StepOrder
from medtune.trainer.run_folder import RunFolder
from medtune.trainer.stage_metrics import stage_metrics
from medtune.trainer.strategies import build_strategy, copied_trainables, gradient_divisor


def fit(
    bench: Bench,
    assembled: Assembled,
    folder: RunFolder,
    *,
    loggers: list[Logger],
    limit: int | None,
    about: dict[str, str],
) -> bool:
    """Trains the model in place, from the folder's saved state where there is one.

    Returns:
        False if someone asked to stop before the last step; the state is saved then.

    Raises:
        NonFiniteLossError: The loss is not a number.
        ValueError: A group that should learn does not, or the other way round; or a split is empty.
    """
    recipe = bench.recipe
    groups = groups_of(bench.prepared, "train", questions=limit, seed=recipe.train.seed)
    batches = recipe_batches(recipe, bench.benchmark, groups, assembled, rank=bench.rank, world_size=bench.world_size)
    order = batches.order
    stop = StopRequest()
    trainer = _trainer(bench, order, loggers, _callbacks(bench, assembled, folder, stop, limit, about))
    sampler = ResumableOrder(
        max_steps=recipe.train.max_steps, accumulate=order.accumulate, start_step=lambda: trainer.global_step
    )
    state = saved_state(folder.checkpoints)
    # Lightning trains in whatever mode a model comes in.
    assembled.model.train()
    with warnings.catch_warnings():
        # Our sampler starts at the saved step; Lightning cannot know.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training")
        warnings.filterwarnings("ignore", message="The 'train_dataloader' does not have many workers")
        trainer.fit(
            _module(bench, assembled, order),
            train_dataloaders=loader(batches, sampler, workers=recipe.data.workers),
            ckpt_path=None if state is None else str(state),
            weights_only=not recipe.train.strategy.startswith("deepspeed"),
        )
    return not stop.asked


def _trainer(bench: Bench, order: StepOrder, loggers: list[Logger], callbacks: list[pl.Callback]) -> pl.Trainer:
    train = bench.recipe.train
    if train.precision == "auto":
        raise ValueError("train.precision 'auto' has to be resolved for the device first")
    return pl.Trainer(
        accelerator="cuda" if bench.device.type == "cuda" else "cpu",
        strategy=build_strategy(train.strategy, world_size=bench.world_size, device=bench.device),
        devices=train.devices,
        precision=train.precision,
        max_steps=train.max_steps,
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


def _module(bench: Bench, assembled: Assembled, order: StepOrder) -> FineTuning:
    train = bench.recipe.train
    return FineTuning(
        assembled.model,
        bench.recipe.model.tuning,
        max_steps=train.max_steps,
        warmup_ratio=train.warmup_ratio,
        weight_decay=train.weight_decay,
        clip_norm=train.clip_norm,
        gradient_divisor=gradient_divisor(train.strategy, world_size=bench.world_size, accumulate=order.accumulate),
        seed=train.seed,
    )


def _callbacks(
    bench: Bench, assembled: Assembled, folder: RunFolder, stop: StopRequest, limit: int | None, about: dict[str, str]
) -> list[pl.Callback]:
    recipe = bench.recipe
    questions = recipe.eval.val_questions if limit is None else min(limit, recipe.eval.val_questions)
    groups = groups_of(bench.prepared, "val", questions=questions, seed=recipe.train.seed)
    answering = _answering(bench, assembled)

    def evaluate(step: int) -> tuple[float, dict[str, float]]:
        with answering() as current:
            scores = evaluate_stage(
                bench,
                current,
                groups,
                out_dir=folder.validation(step),
                conditions=("image",),
                title=f"validation, step {step}",
            )
        return scores.overall.score.value, stage_metrics("validation", scores, bench.benchmark)

    return [
        GradientCheck(recipe.model.tuning),
        StepLog(every_steps=recipe.log.every_steps, stop=stop),
        Checkpoints(
            folder.checkpoints,
            every_steps=recipe.eval.every_steps,
            evaluate=evaluate,
            higher_is_better=bench.benchmark.higher_is_better,
            stop=stop,
            about=about,
        ),
        Progress(),
    ]


def _answering(bench: Bench, assembled: Assembled) -> Callable[[], AbstractContextManager[Assembled]]:
    """Returns what gives the model to evaluate.

    Under ZeRO-3 that is a whole twin which takes over the trained weights each time: a sharded model answers only
    while all ranks run it in step, and they have different numbers of questions. Between evaluations it waits in
    CPU memory.
    """
    if bench.recipe.train.strategy != "deepspeed_stage_3":
        return lambda: nullcontext(assembled)
    twin = copy.deepcopy(assembled.model).cpu()

    @contextmanager
    def refreshed() -> Iterator[Assembled]:
        twin.load_state_dict(copied_trainables(assembled.model), strict=False)
        yield replace(assembled, model=twin.to(bench.device))
        twin.cpu()

    return refreshed
