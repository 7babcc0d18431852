"""Starts the validations of a stage, and keeps its best and last weights."""

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch.distributed as dist
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from medtune.models.weights.checkpoint import BASE, base_samples, write_trained
from medtune.models.weights.divided_files import write_trained_folder
from medtune.models.weights.write_adapter import write_absence, write_adapter
from medtune.trainer.devices.ranks import barrier, highest
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import TrainableModel, about_weights, adapter_base
from medtune.trainer.recipe.schema import Recipe, TrainBlock
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.state_folder import SavedFacts, load_state, save_state
from medtune.trainer.training.step_callbacks import EarlyStop, StopRequest, ValidationStoppedError, step_done

NEVER = 2**62
"""The value of `Trainer.val_check_batch` while no validation is due."""
_DIVIDED = (
    "parts of the model were trained in full while its weights were divided among devices, so that no device ever held "
    "them together"
)


def gathered(model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Returns copies of the named parameters in the host's memory of rank 0, and nothing on the other ranks.

    Where weights are divided, every rank has to call it. No more than one tensor is then whole on a device at a time.
    """
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if name in names:
            with _undivided(parameter) as tensor:
                if is_first:
                    found[name] = tensor.detach().cpu().clone()
    return found


def _undivided(parameter: nn.Parameter) -> contextlib.AbstractContextManager[Any]:
    if hasattr(parameter, "ds_id"):
        return _whole_under_zero_3(parameter)
    if isinstance(parameter, DTensor):
        divided: Any = parameter
        return contextlib.nullcontext(divided.detach().full_tensor())
    return contextlib.nullcontext(parameter)


@contextlib.contextmanager
def _whole_under_zero_3(parameter: nn.Parameter) -> Any:
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        yield parameter


class ValidationSteps(Callback):
    """Lets Lightning validate after every so many optimizer steps of a stage, and after its last one.

    Lightning itself counts forward passes, also those before a resumed state, and leaves out the last step.
    """

    def __init__(self, *, every_steps: int) -> None:
        self._every_steps = every_steps

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Says whether a validation is due, which Lightning asks after this."""
        is_due = step_done(trainer, batch_idx) and is_validated(
            trainer.global_step, every_steps=self._every_steps, last=trainer.max_steps
        )
        trainer.val_check_batch = 1 if is_due else NEVER


def is_validated(step: int, *, every_steps: int, last: int) -> bool:
    """Returns whether a validation follows a step of a stage, whose steps are counted from 1."""
    return step % every_steps == 0 or step == last


class Checkpoints(Callback):
    """Writes the best weights and the last weights of a stage after its validations.

    The best weights are those with the best primary metric in the last stage of the run. An earlier stage only passes
    its last weights on to the next stage.
    """

    def __init__(
        self,
        experiment: Experiment,
        planned: PlannedStage,
        model: TrainableModel,
        *,
        score: Callable[[], float],
        early: EarlyStop | None,
    ) -> None:
        recipe = experiment.recipe
        self._folder = experiment.folder
        self._planned = planned
        self._model = model
        self._score = score
        self._sign = 1.0 if experiment.benchmark.higher_is_better else -1.0
        self._early = early
        self._gathers = _gathers(recipe)
        self._base = adapter_base(recipe)
        base = {BASE: base_samples(model.assembled.model, model.learnt)}
        self._about = {**experiment.about, **about_weights(recipe), **experiment.learnt.facts(), **base}
        self._best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the best metric so far, which a resumed run needs."""
        return {"best": self._best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._best = state_dict["best"]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Writes the weights that were validated, if they are the best or the last ones."""
        assert isinstance(pl_module, FineTuning)
        step, value = self._planned.first_step + trainer.global_step, self._score()
        if self._planned.is_last and is_best(value, self._best, sign=self._sign):
            self._best = value
            self._write(trainer, pl_module, "best", step, value)
        stops = self._early is not None and bool(self._early.why)
        if stops or step == self._planned.last_step:
            name = "last" if self._planned.is_last else f"stage_{self._planned.number}"
            self._write(trainer, pl_module, name, step, value)
        if self._early is not None and stops and trainer.is_global_zero:
            self._folder.note_early_stop(self._planned.number, self._early.sentence(trainer))

    def _write(self, trainer: pl.Trainer, module: FineTuning, name: str, step: int, value: float) -> None:
        file, folder = self._folder.trained_file(name), self._folder.trained_folder(name)
        about = {**self._about, "step": str(step), "validation": repr(value)}
        if self._gathers:
            tensors = gathered(module.model, self._model.learnt)
            if trainer.is_global_zero:
                write_trained(file, tensors, about=about, starts=self._model.starts)
                shutil.rmtree(folder, ignore_errors=True)
                if name == "best":
                    adapter = self._folder.adapter
                    write_adapter(adapter, module.model, tensors, self._base, about=about, starts=self._model.starts)
        else:
            write_trained_folder(folder, module.model, self._model.learnt, about=about, starts=self._model.starts)
            if trainer.is_global_zero:
                file.unlink(missing_ok=True)
                if name == "best":
                    write_absence(self._folder.adapter, _DIVIDED)
        barrier()


def _gathers(recipe: Recipe) -> bool:
    # Adapters and projectors are small. A tower or a language model that learns itself is not, and where it is divided
    # among the devices, no host may have room for it: every rank then writes its part.
    learning = [how for stage in recipe.stages for part, how in stage.tuning.parts().items() if part != "projector"]
    return not recipe.train.divides_weights or all(how.mode in ("frozen", "lora") for how in learning)


def is_best(value: float, best: float | None, *, sign: float) -> bool:
    """Returns whether the weights of a validation replace the best ones so far; with equal metrics they do.

    A value is NaN if all answers wait for a judge. Weights with such a value replace only weights whose value is NaN
    too.
    """
    return best is None or math.isnan(best) or sign * value >= sign * best


class ContinuedTraining(Callback):
    """Continues the training at a saved state, before its first step.

    Args:
        facts: Facts about the run; only its first step is read.
    """

    def __init__(self, state: Path, facts: SavedFacts) -> None:
        self._state = state
        self._facts = facts

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reads the state; the strategy has its optimizer by now, and the loops have not begun."""
        assert isinstance(pl_module, FineTuning)
        load_state(trainer, pl_module, self._state, self._facts)


class SavedState(Callback):
    """Saves a state to resume from: after every validation, at the recipe's intervals, and when a stop was asked for.

    A state that was saved in the middle of a validation is continued with this validation. The callback has to be the
    last one, because it saves the states of the others.
    """

    def __init__(
        self, folder: RunFolder, facts: SavedFacts, train: TrainBlock, stop: StopRequest, *, steps_per_draw: int = 1
    ) -> None:
        self._folder = folder
        self._steps_per_draw = steps_per_draw
        self._facts = facts
        self._every_steps = train.save_every_steps
        self._every_minutes = train.save_every_minutes
        self._stop = stop
        self._saved_s = time.monotonic()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Does the validation that was stopped; the other callbacks have continued at the saved state."""
        if self._folder.validation_due() and self._folder.saved_step() == self._facts.first_step + trainer.global_step:
            # This is what Lightning's training loop does after a step.
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Saves a state if a validation was stopped."""
        if isinstance(exception, ValidationStoppedError):
            self._save(trainer, pl_module, validation_due=True)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_s = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Saves a state if a stop was asked for or an interval has passed, and no validation follows."""
        if not step_done(trainer, batch_idx) or trainer.val_check_batch != NEVER:
            return
        if trainer.global_step % self._steps_per_draw:
            # A state holds no draws, which the next step learns from again.
            return
        if self._stop.asked:
            # Lightning would validate once more before it stops.
            trainer.limit_val_batches = 0
            self._save(trainer, pl_module)
        elif self._is_due(trainer):
            self._save(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._save(trainer, pl_module)

    def _is_due(self, trainer: pl.Trainer) -> bool:
        step = self._facts.first_step + trainer.global_step
        if is_saved(step, every_steps=self._every_steps):
            return True
        if self._every_minutes is None:
            return False
        # The clocks of the ranks differ; that of rank 0 counts.
        passed = time.monotonic() - self._saved_s >= 60 * self._every_minutes
        return bool(highest(int(passed and trainer.is_global_zero)))

    def _save(self, trainer: pl.Trainer, module: pl.LightningModule, *, validation_due: bool = False) -> None:
        assert isinstance(module, FineTuning)
        save_state(trainer, module, self._folder, self._facts, validation_due=validation_due)
        self._saved_s = time.monotonic()


def is_saved(step: int, *, every_steps: int | None) -> bool:
    """Returns whether a state is saved after a step of the run, whether or not a validation saves one there."""
    return every_steps is not None and step % every_steps == 0
