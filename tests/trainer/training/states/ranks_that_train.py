"""Trains a tiny random model in the ranks of a test, without a process of its own for each run."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import torch.distributed as dist

from medtune.eval.results.metrics_file import read_metrics
from tests.ranks import run_ranks

SETTINGS = ("log.wandb=disabled", "train.max_steps=6", "train.batch_size=4", "train.micro_batch_size=1",
            "train.clip_norm=0.5", "eval.every_steps=6", "eval.val_questions=2", "eval.max_new_tokens=2")  # fmt: skip
FULL = ("model.tuning.vision.mode=full", "model.tuning.language.mode=full")


def train(out: Path, root: Path, *settings: str, devices: int, strategy: str = "auto", stop_at: int | None = None,
          resume: bool = False, by: signal.Signals = signal.SIGTERM,
          scores: Mapping[int, float] | None = None) -> None:  # fmt: skip
    """Trains in `devices` ranks; with `stop_at`, rank 0 gets a signal after that step, before its state is saved.

    With `scores`, the primary metric of the validation after a step is the one named for it.
    """
    given = (*SETTINGS, f"data.root={root}", f"train.devices={devices}", f"train.strategy={strategy}", *settings)
    run_ranks(devices, train_in_rank, out, given, stop_at, resume, by, scores)


def train_in_rank(rank: int, world_size: int, out: Path, settings: tuple[str, ...], stop_at: int | None,
                  resume: bool, by: signal.Signals = signal.SIGTERM,
                  scores: Mapping[int, float] | None = None) -> None:  # fmt: skip
    from medtune.trainer.experiment.experiment import open_experiment
    from medtune.trainer.experiment.run import train as train_stages
    from medtune.trainer.recipe.read import read_recipe
    from medtune.trainer.runs.run_folder import RunFolder
    from medtune.trainer.training.checkpoints import Checkpoints
    from medtune.trainer.training.step_callbacks import StepLog

    if scores is not None:
        validated = Checkpoints.on_validation_end

        def score(self: Checkpoints, trainer, pl_module):  # type: ignore[no-untyped-def]
            self._score = lambda: scores[self._planned.first_step + trainer.global_step]
            validated(self, trainer, pl_module)

        Checkpoints.on_validation_end = score  # type: ignore[method-assign]

    if stop_at is not None and rank == 0:
        logged = StepLog.on_train_batch_end

        def ask(self: StepLog, trainer, module, outputs, batch, batch_idx):  # type: ignore[no-untyped-def]
            if self._planned.first_step + trainer.global_step == stop_at:
                os.kill(os.getpid(), by)
            logged(self, trainer, module, outputs, batch, batch_idx)

        StepLog.on_train_batch_end = ask  # type: ignore[method-assign,assignment]
    experiment = open_experiment(
        read_recipe("nano_busi_lora", settings), RunFolder(out), name="nano_busi_lora", training=True, resume=resume,
        limit=None, command=["test"],
    )  # fmt: skip
    train_stages(experiment)
    if dist.is_initialized():
        dist.destroy_process_group()


def losses(out: Path) -> list[float]:
    """Returns the loss of each step."""
    return [row.value for row in read_metrics(out / "metrics.csv") if row.name == "train/loss"]


def state_of(out: Path) -> dict[str, object]:
    """Returns what state.json of the newest state says."""
    from medtune.trainer.runs.run_folder import RunFolder

    state = RunFolder(out).saved_state()
    assert state is not None
    found: dict[str, object] = json.loads((state / "state.json").read_text())
    return found
