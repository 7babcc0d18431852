"""The tensors of an optimizer under the names of the parameters that they belong to.

An optimizer of torch or bitsandbytes has them for each parameter. ZeRO has them for flat groups of parameters, of which
each rank holds a part; they are found there parameter by parameter.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import Tensor, nn

from medtune.models.weights.divided.pieces import Piece, by_name, piece_of_rank
from medtune.trainer.training.states.zero_groups import Partitioned, ZeroGroup, zero_groups

MOMENTS = ("exp_avg", "exp_avg_sq")
"""The names of AdamW's moments."""
Named = Mapping[str, nn.Parameter]


class OptimizerTensors(Protocol):
    """The tensors of an optimizer, by the names of the parameters."""

    def steps(self) -> dict[str, float]:
        """Returns the number of steps that the optimizer counted for each parameter that it has updated."""
        ...

    def pieces(self) -> dict[str, Piece]:
        """Returns what this rank holds of the tensors; the names are PARAMETER.KEY, such as head.weight.exp_avg."""
        ...

    def make(self, steps: Mapping[str, float], types: Mapping[str, torch.dtype], sizes: Mapping[str, int]) -> None:
        """Makes the tensors that a saved state has, before the first step, so that `pieces` can be filled.

        Args:
            steps: What `steps` returned when the state was saved.
            types: The types of the saved tensors, under the names of `pieces`.
            sizes: Their numbers of values.
        """
        ...


def optimizer_tensors(trainer: pl.Trainer, learning: Named) -> OptimizerTensors:
    """Returns the tensors of a trainer's optimizer.

    Args:
        trainer: The trainer, whose strategy is set up.
        learning: The parameters that learn, by name.
    """
    if isinstance(trainer.strategy, DeepSpeedStrategy):
        engine: Any = trainer.strategy.model
        return _Zero(zero_groups(engine, learning))
    return _ForEachParameter(trainer.optimizers[0], learning)


class _ForEachParameter:
    def __init__(self, optimizer: torch.optim.Optimizer, learning: Named) -> None:
        self._optimizer = optimizer
        self._learning = learning

    def steps(self) -> dict[str, float]:
        found = {name: self._optimizer.state.get(p, {}).get("step") for name, p in self._learning.items()}
        return {name: float(step) for name, step in found.items() if step is not None}

    def pieces(self) -> dict[str, Piece]:
        return by_name(
            (f"{name}.{key}", value)
            for name, parameter in self._learning.items()
            for key, value in self._optimizer.state.get(parameter, {}).items()
            if isinstance(value, Tensor) and key != "step"
        )

    def make(self, steps: Mapping[str, float], types: Mapping[str, torch.dtype], sizes: Mapping[str, int]) -> None:
        groups = {id(p): group for group in self._optimizer.param_groups for p in group["params"]}
        keys = {name: key for name in types for key in [name.rpartition(".")[2]]}
        of_parameter: dict[str, list[str]] = {}
        for name, key in keys.items():
            of_parameter.setdefault(name.removesuffix(f".{key}"), []).append(key)
        for name, step in steps.items():
            parameter = self._learning[name]
            made: dict[str, Any] = {
                key: _made(parameter, types[f"{name}.{key}"], sizes[f"{name}.{key}"])
                for key in of_parameter.get(name, ())
            }
            self._optimizer.state[parameter] = {"step": _step(step, groups[id(parameter)], parameter), **made}


def _made(parameter: nn.Parameter, dtype: torch.dtype, size: int) -> Tensor:
    if size == parameter.numel():
        return torch.zeros_like(parameter, dtype=dtype).detach()
    return torch.zeros(size, dtype=dtype, device=parameter.device)


def _step(step: float, group: Mapping[str, Any], parameter: Tensor) -> Tensor | int:
    if "fused" not in group:
        # bitsandbytes counts with plain numbers.
        return int(step)
    on_device = group["fused"] or group.get("capturable")
    return torch.tensor(step, dtype=torch.float32, device=parameter.device if on_device else "cpu")


class _Zero:
    def __init__(self, groups: Iterable[ZeroGroup]) -> None:
        self._groups = tuple(groups)

    def steps(self) -> dict[str, float]:
        return {
            name: float(group.state["step"]) for group in self._groups if "step" in group.state for name in group.names
        }

    def pieces(self) -> dict[str, Piece]:
        found = {}
        for number, group in enumerate(self._groups):
            tensors = {key: value for key, value in group.state.items() if isinstance(value, Tensor) and key != "step"}
            for key, flat_N in tensors.items():
                if key not in MOMENTS:
                    found[f"{_own_name(number)}.{key}"] = Piece(flat_N.view(-1), 0, flat_N.numel())
                    continue
                for part in group.parts:
                    if (piece := _piece_of_group(part, flat_N)) is not None:
                        found[f"{part.name}.{key}"] = piece
        return found

    def make(self, steps: Mapping[str, float], types: Mapping[str, torch.dtype], sizes: Mapping[str, int]) -> None:
        if odd := sorted({name.rpartition(".")[2] for name in types} - set(MOMENTS)):
            self._make_own(steps, types, sizes, odd)
            return
        for group in self._groups:
            counts = {steps[name] for name in group.names if name in steps}
            if len(counts) > 1:
                raise ValueError(
                    f"the state counts {sorted(counts)} steps for parameters that learn together, and ZeRO keeps one "
                    "count for all of them: resume with the train.strategy of the interrupted run"
                )
            if counts:
                group.begin(counts.pop())

    def _make_own(
        self, steps: Mapping[str, float], types: Mapping[str, torch.dtype], sizes: Mapping[str, int], keys: list[str]
    ) -> None:
        for number, group in enumerate(self._groups):
            names = {key: f"{_own_name(number)}.{key}" for key in keys}
            size = sizes.get(names.get("state1", ""), 0)
            if not types.keys() >= set(names.values()) or size != group.weights_N.numel():
                raise ValueError(
                    f"the state holds the moments of adamw_8bit ({', '.join(keys)}), which only the same number of "
                    "devices under the same train.strategy can take: resume with those of the interrupted run"
                )
            made = {
                key: torch.zeros(sizes[name], dtype=types[name], device=group.weights_N.device)
                for key, name in names.items()
            }
            step = next(steps[name] for name in group.names)
            group.optimizer.state[group.weights_N] = {"step": int(step), **made}


def _own_name(group: int) -> str:
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    return f"rank_{rank}_of_{world_size}.group_{group}"


def _piece_of_group(part: Partitioned, flat_N: Tensor) -> Piece | None:
    values_N = flat_N[part.begin : part.begin + part.count]
    return piece_of_rank(values_N, part.whole) if part.first is None else Piece(values_N, part.first, part.whole)
