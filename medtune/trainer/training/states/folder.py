"""Writes the state of a training into the run folder, and reads it on any number of ranks, under any strategy."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import lightning.pytorch as pl
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import nn
from torch.distributed.fsdp import FSDPModule

from medtune.models.weights.divided.files import read_pieces, saved_sizes, saved_types, write_pieces
from medtune.models.weights.divided.pieces import Piece, by_name
from medtune.models.weights.divided.whole_folders import write_last
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.experiment.run_folder import STATE_FILE, RunFolder
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.saved_names import refuse_other_names
from medtune.trainer.training.states.optimizer_tensors import OptimizerTensors, optimizer_tensors
from medtune.trainer.training.states.progress import (
    callback_states,
    go_on_at,
    load_callback_states,
    load_loss_scale,
    load_schedule,
    loss_scale,
    schedule_state,
)
from medtune.trainer.training.states.zero_groups import link_moments, take_weights

TENSORS = "tensors"
UNFINISHED = "state.unfinished"
REMOVED = "state.removed"
_MODEL, _OPTIMIZER, _CALLBACK = "model.", "optimizer.", "callback."


@runtime_checkable
class HoldsTensors(Protocol):
    """A callback whose memory are tensors of the parameters' shapes, divided as these are."""

    def pieces(self) -> dict[str, Piece]:
        """Returns what this rank holds, by the parameters' names."""
        ...

    def make(self) -> None:
        """Makes the tensors, so that `pieces` can be filled."""
        ...


@dataclass(frozen=True)
class SavedFacts:
    """The facts about a run that are written into its states, for whoever reads one.

    Attributes:
        first_step: The steps of the run before the stage that is trained.
        made_with: The strategy, the numbers of nodes and devices, and the hashes of the data and the recipe.
    """

    first_step: int
    made_with: Mapping[str, str | int]


def save_state(
    trainer: pl.Trainer, module: FineTuning, folder: RunFolder, facts: SavedFacts, *, validation_due: bool = False
) -> None:
    """Saves the state of a training; every rank has to call it, after an optimizer step.

    The state is written under a temporary name and renamed when it is whole. Only then the one before is removed.
    Wherever the run is killed or the disk is full, the run folder holds a whole state.

    Args:
        trainer: The trainer.
        module: The module that it trains.
        folder: The run folder.
        facts: Facts about the run that the state records.
        validation_due: Whether the validation after this step has not been done.
    """
    step = facts.first_step + trainer.global_step
    unfinished, target = folder.checkpoints / UNFINISHED, folder.state(step, validation_due=validation_due)
    optimizer = _optimizer(trainer, module)
    pieces = _pieces(trainer, module, optimizer)
    if trainer.is_global_zero:
        folder.checkpoints.mkdir(parents=True, exist_ok=True)
        for left in (unfinished, folder.checkpoints / REMOVED):
            shutil.rmtree(left, ignore_errors=True)
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
        write_last(unfinished / STATE_FILE, json.dumps(said))
        if target.exists():
            # The same step again: what is there is whole, and the training is the same.
            shutil.rmtree(unfinished)
        else:
            unfinished.rename(target)
        for other in folder.states():
            if other != target:
                other.rename(folder.checkpoints / REMOVED)
                shutil.rmtree(folder.checkpoints / REMOVED)
    barrier()


def load_state(trainer: pl.Trainer, module: FineTuning, state: Path, facts: SavedFacts) -> None:
    """Continues a training at a saved state, which another number of ranks or another strategy may have written.

    Every rank has to call it once the strategy is set up, before the fit loop begins. Each reads only what it holds.
    """
    said = json.loads((state / STATE_FILE).read_text("utf-8"))
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


def _holders(trainer: pl.Trainer) -> list[tuple[str, HoldsTensors]]:
    every: Any = trainer
    return [(type(each).__name__, each) for each in every.callbacks if isinstance(each, HoldsTensors)]
