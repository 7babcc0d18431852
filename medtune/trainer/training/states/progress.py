"""What a trainer knows beside its tensors: its step, its schedule, its loss scale, and what its callbacks remember."""

from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import Tensor

_PASSES = ("ready", "started", "processed", "completed")


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


_KINDS = ("total", "current")


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
    return {name: _plain(state) for name, state in states.items() if state}


def load_callback_states(trainer: pl.Trainer, saved: Mapping[str, Any]) -> None:
    """Gives the callbacks what they remembered."""
    for callback in _callbacks(trainer):
        if _name(callback) in saved:
            callback.load_state_dict(_restored(saved[_name(callback)]))


def _callbacks(trainer: pl.Trainer) -> list[pl.Callback]:
    every: Any = trainer
    return list(every.callbacks)


def _name(callback: pl.Callback) -> str:
    return type(callback).__name__


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"number": value.item(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"number", "dtype"}:
        return torch.tensor(value["number"], dtype=getattr(torch, value["dtype"]))
    if isinstance(value, dict):
        return {key: _restored(each) for key, each in value.items()}
    return [_restored(each) for each in value] if isinstance(value, list) else value
