"""Writes the state of a training into the run folder, and reads it on any number of ranks under the same strategy.

A state is a folder `checkpoints/state_step_NNNNNN`. It holds the trained weights, the optimizer's moments and the
moving average as pieces by the names of the parameters (`medtune/models/weights/divided_files.py`), and `state.json`
with everything else. Nothing in it is executed when it is read.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from medtune.models.weights.divided_files import Piece, by_name, read_pieces, saved_sizes, saved_types, write_pieces
from medtune.models.weights.whole_folders import write_last
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.launch.held import refuse_lost
from medtune.trainer.replies.start_weights import StartWeights
from medtune.trainer.runs.run_folder import STATE_FILE, RunFolder
from medtune.trainer.runs.saved_states import drop_older, make_room, read_sealed, sealed
from medtune.trainer.training.learning_states import refuse_other_names
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.optimizer_tensors import OptimizerTensors, link_moments, optimizer_tensors, take_weights
from medtune.trainer.training.step_callbacks import WeightAverage

_PASSES = ("ready", "started", "processed", "completed")

_KINDS = ("total", "current")
TENSORS = "tensors"
UNFINISHED = "state.unfinished"
REMOVED = "state.removed"
_MODEL, _OPTIMIZER, _CALLBACK = "model.", "optimizer.", "callback."


def go_on_at(trainer: pl.Trainer, step: int) -> None:
    """Sets a trainer's loops to a finished optimizer step, before its fit loop begins.

    The loops count forward passes, of which a step has another number on another number of devices. They are therefore
    not saved but follow from the step: a stage is one epoch.
    """
    passes = step * trainer.accumulate_grad_batches
    state = trainer.fit_loop.state_dict()
    epoch, optimizer = "epoch_loop.", "epoch_loop.automatic_optimization.optim_progress"
    state["epoch_progress"] = {kind: _counts(ready=1, started=1, processed=0, completed=0) for kind in _KINDS}
    state[f"{epoch}state_dict"] = {"_batches_that_stepped": step}
    state[f"{epoch}batch_progress"] = {
        **{kind: _counts(**dict.fromkeys(_PASSES, passes)) for kind in _KINDS},
        "is_last_batch": False,
    }
    state[f"{epoch}scheduler_progress"] = {kind: _counts(ready=step, completed=step) for kind in _KINDS}
    state[optimizer] = {
        "optimizer": {
            "step": {kind: _counts(ready=step, completed=step) for kind in _KINDS},
            "zero_grad": {kind: _counts(ready=step, started=step, completed=step) for kind in _KINDS},
        }
    }
    trainer.fit_loop.load_state_dict(state)


def _counts(**counts: int) -> dict[str, int]:
    return counts


def schedule_state(trainer: pl.Trainer) -> dict[str, Any]:
    """Returns how far the learning rate's schedule has come; its form follows from the recipe."""
    state = trainer.lr_scheduler_configs[0].scheduler.state_dict()
    return {"last_epoch": state["last_epoch"], "_last_lr": list(state["_last_lr"])}


def load_schedule(trainer: pl.Trainer, saved: Mapping[str, Any]) -> None:
    """Continues the schedule, and gives the optimizer the learning rates of the next step."""
    schedule = trainer.lr_scheduler_configs[0].scheduler
    rates: list[float] = saved["_last_lr"]
    groups = trainer.optimizers[0].param_groups
    if len(rates) != len(groups):
        raise ValueError(
            f"the saved state has {len(rates)} learning rates, and {len(groups)} groups of parameters learn"
        )
    steps = int(saved["last_epoch"])
    schedule.load_state_dict(
        {**schedule.state_dict(), "last_epoch": steps, "_step_count": steps + 1, "_last_lr": rates}
    )
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate


def loss_scale(trainer: pl.Trainer) -> dict[str, float] | None:
    """Returns the scale of the loss under 16-mixed and the number of steps since it changed; None without a scale."""
    if isinstance(trainer.strategy, DeepSpeedStrategy):
        engine: Any = trainer.strategy.model
        scaler = engine.optimizer.loss_scaler
        if not getattr(engine.optimizer, "dynamic_loss_scale", False):
            return None
        return {"scale": float(scaler.cur_scale), "good_steps": scaler.cur_iter - scaler.last_overflow_iter - 1}
    found = trainer.precision_plugin.state_dict()
    return None if "scale" not in found else {"scale": found["scale"], "good_steps": found["_growth_tracker"]}


def load_loss_scale(trainer: pl.Trainer, saved: Mapping[str, float] | None) -> None:
    """Continues with a saved scale of the loss; without one, the scale begins as in a new run."""
    if saved is None:
        return
    if isinstance(trainer.strategy, DeepSpeedStrategy):
        engine: Any = trainer.strategy.model
        scaler = engine.optimizer.loss_scaler
        scaler.cur_scale = saved["scale"]
        scaler.last_overflow_iter = scaler.cur_iter - int(saved["good_steps"]) - 1
        return
    plugin: Any = trainer.precision_plugin
    begun = plugin.state_dict()
    if "scale" in begun:
        plugin.load_state_dict({**begun, "scale": saved["scale"], "_growth_tracker": int(saved["good_steps"])})


def callback_states(trainer: pl.Trainer) -> dict[str, Any]:
    """Returns what the callbacks remember, by their names, in plain values."""
    states = {_name(callback): callback.state_dict() for callback in _callbacks(trainer)}
    return {name: _json_value(state) for name, state in states.items() if state}


def load_callback_states(trainer: pl.Trainer, saved: Mapping[str, Any]) -> None:
    for callback in _callbacks(trainer):
        if _name(callback) in saved:
            callback.load_state_dict(_restored(saved[_name(callback)]))


def _callbacks(trainer: pl.Trainer) -> list[pl.Callback]:
    every: Any = trainer
    return list(every.callbacks)


def _name(callback: pl.Callback) -> str:
    return type(callback).__name__


def _json_value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"number": value.item(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, dict):
        return {str(key): _json_value(each) for key, each in value.items()}
    return [_json_value(each) for each in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"number", "dtype"}:
        return torch.tensor(value["number"], dtype=getattr(torch, value["dtype"]))
    if isinstance(value, dict):
        return {key: _restored(each) for key, each in value.items()}
    return [_restored(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class SavedFacts:
    """The facts about a run that are written into its states, for whoever reads one."""

    first_step: int  # The steps of the run before the stage that is trained.
    # The strategy, the numbers of nodes and devices, and the hashes of the data and the recipe.
    made_with: Mapping[str, str | int]


def save_state(
    trainer: pl.Trainer, module: FineTuning, folder: RunFolder, facts: SavedFacts, *, validation_due: bool = False
) -> None:
    """Saves the state of a training; every rank has to call it, after an optimizer step.

    The state is written under a temporary name and renamed when it is whole. Only then the older of the two before is
    removed. Wherever the run is killed or the disk is full, the run folder holds a whole state.

    Args:
        validation_due: Whether the validation after this step has not been done.
    """
    step = facts.first_step + trainer.global_step
    unfinished, target = folder.checkpoints / UNFINISHED, folder.state(step, validation_due=validation_due)
    optimizer = _optimizer(trainer, module)
    pieces = _pieces(trainer, module, optimizer)
    if trainer.is_global_zero:
        refuse_lost(folder.root)
        folder.checkpoints.mkdir(parents=True, exist_ok=True)
        for left in (unfinished, folder.checkpoints / REMOVED):
            shutil.rmtree(left, ignore_errors=True)
        make_room(folder, folder.checkpoints / REMOVED)
    barrier()
    write_pieces(unfinished / TENSORS, pieces)
    if trainer.is_global_zero:
        said = {
            "step": step,
            "made_with": dict(facts.made_with),
            "schedule": schedule_state(trainer),
            "optimizer_steps": optimizer.steps(),
            "loss_scale": loss_scale(trainer),
            "callbacks": callback_states(trainer),
        }
        write_last(unfinished / STATE_FILE, sealed(said, unfinished / TENSORS))
        if target.exists():
            # The same step again: what is there is whole, and the training is the same.
            shutil.rmtree(unfinished)
        else:
            unfinished.rename(target)
        drop_older(folder, target, folder.checkpoints / REMOVED)
    barrier()


def load_state(trainer: pl.Trainer, module: FineTuning, state: Path, facts: SavedFacts) -> None:
    """Continues a training at a saved state, which another number of ranks may have written.

    Every rank has to call it once the strategy is set up, before the fit loop begins. Each reads only what it holds.
    """
    said = read_sealed(state)
    tensors, learning = state / TENSORS, _learning(module)
    sizes, types = saved_sizes(tensors), saved_types(tensors)
    refuse_other_names({name.removeprefix(_MODEL) for name in sizes if name.startswith(_MODEL)}, module.model)
    read_pieces(tensors, by_name(learning.items(), prefix=_MODEL))
    moments = {name: name.removeprefix(_OPTIMIZER) for name in sizes if name.startswith(_OPTIMIZER)}
    optimizer = _optimizer(trainer, module)
    optimizer.make(
        said["optimizer_steps"],
        {short: types[name] for name, short in moments.items()},
        {short: sizes[name] for name, short in moments.items()},
    )
    if isinstance(trainer.strategy, DeepSpeedStrategy):
        take_weights(trainer.strategy.model, learning)
        link_moments(trainer.strategy.model)
    for kind, holder in _holders(trainer):
        if any(name.startswith(f"{_CALLBACK}{kind}.") for name in sizes):
            holder.make()
    wanted = {name: piece for name, piece in _pieces(trainer, module, optimizer).items() if not name.startswith(_MODEL)}
    read_pieces(tensors, wanted)
    load_schedule(trainer, said["schedule"])
    load_loss_scale(trainer, said["loss_scale"])
    load_callback_states(trainer, said["callbacks"])
    go_on_at(trainer, int(said["step"]) - facts.first_step)
    barrier()


def _learning(module: FineTuning) -> dict[str, nn.Parameter]:
    return {name: p for name, p in module.model.named_parameters() if p.requires_grad}


def _optimizer(trainer: pl.Trainer, module: FineTuning) -> OptimizerTensors:
    for part in module.model.modules():
        if isinstance(part, FSDPModule):
            # A group that was gathered to answer still has its parameters whole.
            part.reshard()
    return optimizer_tensors(trainer, _learning(module))


def _pieces(trainer: pl.Trainer, module: FineTuning, optimizer: OptimizerTensors) -> dict[str, Piece]:
    held = by_name(_learning(module).items(), prefix=_MODEL)
    held |= {f"{_OPTIMIZER}{name}": piece for name, piece in optimizer.pieces().items()}
    for name, holder in _holders(trainer):
        held |= {f"{_CALLBACK}{name}.{each}": piece for each, piece in holder.pieces().items()}
    return held


def _holders(trainer: pl.Trainer) -> list[tuple[str, WeightAverage | StartWeights]]:
    every: Any = trainer
    return [(type(each).__name__, each) for each in every.callbacks if isinstance(each, WeightAverage | StartWeights)]
