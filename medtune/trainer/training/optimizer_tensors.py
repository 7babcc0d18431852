"""The tensors of an optimizer under the names of the parameters that they belong to.

An optimizer of torch or bitsandbytes has them for each parameter. ZeRO has them for flat groups of parameters, of which
each rank holds a part; they are found there parameter by parameter.

Source: deepspeed 0.19.8, `runtime/zero/stage_1_and_2.py` and `stage3.py`. Tried with two and four ranks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import Tensor, nn

from medtune.models.weights.divided_files import Piece, by_name, local_part, piece_of_rank

MOMENTS = ("exp_avg", "exp_avg_sq")
"""The names of AdamW's moments."""
Named = Mapping[str, nn.Parameter]


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The part of a parameter that this rank holds in a flat group."""

    name: str
    begin: int  # The place of the part's first value in the rank's flat tensors.
    count: int  # The number of its values there, with ZeRO-3's padding.
    first: int | None  # The place of its first value in the flattened parameter; None for the equal shares of ZeRO-3.
    whole: int


@dataclass(frozen=True, slots=True)
class ZeroGroup:
    """Parameters whose float32 weights and moments lie in flat tensors of one order."""

    names: tuple[str, ...]  # The names of all parameters of the group, the same on every rank.
    parts: tuple[Partitioned, ...]
    weights_N: Tensor  # The rank's float32 weights, flat.
    optimizer: torch.optim.Optimizer  # The optimizer that updates the flat weights.

    @property
    def state(self) -> Mapping[str, Any]:
        """The moments and the count of steps; empty before the first step."""
        found: Mapping[str, Any] = self.optimizer.state.get(self.weights_N, {})
        return found

    def begin(self, step: float) -> None:
        """Makes the moments, which do not exist before a first step, and sets the count of steps."""
        fused = any(group.get("fused") or group.get("capturable") for group in self.optimizer.param_groups)
        device = self.weights_N.device if fused else torch.device("cpu")
        self.optimizer.state[self.weights_N] = {
            "step": torch.tensor(step, dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(self.weights_N).detach(),
            "exp_avg_sq": torch.zeros_like(self.weights_N).detach(),
        }


def zero_groups(engine: Any, learning: Mapping[str, nn.Parameter]) -> Iterator[ZeroGroup]:
    names = {id(parameter): name for name, parameter in learning.items()}
    zero = engine.optimizer
    if hasattr(zero, "fp32_partitioned_groups_flat"):
        yield from _stage_3(zero, names)
    else:
        yield from _stages_1_and_2(zero, names)


def link_moments(engine: Any) -> None:
    """Tells ZeRO-1 and 2 where the moments of each parameter lie, which they otherwise note in the first step."""
    if hasattr(engine.optimizer, "_lazy_init_hp_params_optimizer_state"):
        engine.optimizer._lazy_init_hp_params_optimizer_state()


def take_weights(engine: Any, learning: Mapping[str, nn.Parameter]) -> None:
    """Copies the parameters into the float32 weights that the optimizer updates.

    Without it, the first step after a resume would write the untrained weights back.
    """
    for group in zero_groups(engine, learning):
        for part in group.parts:
            held_N = local_part(learning[part.name]).detach().view(-1)
            first = 0 if part.first is None else part.first
            group.weights_N.data[part.begin : part.begin + part.count].copy_(held_N[first : first + part.count])
    # ZeRO-3 keeps small parameters whole on every device; these are put together again, as after a step.
    whole: list[Any] = [each for each in learning.values() if getattr(each, "ds_persist", False)]
    if whole:
        whole[0].partition(whole)
        whole[0].all_gather(whole)


def _stage_3(zero: Any, names: Mapping[int, str]) -> Iterator[ZeroGroup]:
    for number, weights_N in enumerate(zero.fp32_partitioned_groups_flat):
        parts = []
        for parameter in zero.fp16_groups[number]:
            _, begin, count = zero.grad_position[zero.get_param_id(parameter)]
            parts.append(Partitioned(names[id(parameter)], begin, count, None, parameter.ds_numel))
        yield ZeroGroup(tuple(part.name for part in parts), tuple(parts), weights_N, zero.optimizer)


def _stages_1_and_2(zero: Any, names: Mapping[int, str]) -> Iterator[ZeroGroup]:
    for parameters, weights_N in zip(zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True):
        parts = []
        for parameter in parameters:
            if (held := parameter._hp_mapping) is not None:
                there, here = held.lp_fragment_address, held.hp_fragment_address
                parts.append(Partitioned(names[id(parameter)], here.start, here.numel, there.start, parameter.numel()))
        yield ZeroGroup(tuple(names[id(p)] for p in parameters), tuple(parts), weights_N, zero.optimizer)


def optimizer_tensors(trainer: pl.Trainer, learning: Named) -> "OptimizerTensors":
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
                key: _zeros(parameter, types[f"{name}.{key}"], sizes[f"{name}.{key}"])
                for key in of_parameter.get(name, ())
            }
            self._optimizer.state[parameter] = {"step": _step(step, groups[id(parameter)], parameter), **made}


def _zeros(parameter: nn.Parameter, dtype: torch.dtype, size: int) -> Tensor:
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
            # ZeRO keeps one count for all parameters of a group.
            step = next((steps[name] for name in group.names if name in steps), None)
            if step is not None:
                group.begin(step)

    def _make_own(
        self, steps: Mapping[str, float], types: Mapping[str, torch.dtype], sizes: Mapping[str, int], keys: list[str]
    ) -> None:
        for number, group in enumerate(self._groups):
            names = {key: f"{_own_name(number)}.{key}" for key in keys}
            size = sizes.get(names.get("state1", ""), 0)
            if not types.keys() >= set(names.values()) or size != group.weights_N.numel():
                raise ValueError(
                    f"the state holds the moments of adamw_8bit ({', '.join(keys)}), which only the same number of "
                    "devices can take: resume with that of the interrupted run"
                )
            made = {
                key: torch.zeros(sizes[name], dtype=types[name], device=group.weights_N.device)
                for key, name in names.items()
            }
            step = next(steps[name] for name in group.names)
            group.optimizer.state[group.weights_N] = {"step": int(step), **made}


OptimizerTensors = _ForEachParameter | _Zero
"""The tensors of an optimizer; the names of its pieces are PARAMETER.KEY, such as head.weight.exp_avg."""


def _own_name(group: int) -> str:
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    return f"rank_{rank}_of_{world_size}.group_{group}"


def _piece_of_group(part: Partitioned, flat_N: Tensor) -> Piece | None:
    values_N = flat_N[part.begin : part.begin + part.count]
    return piece_of_rank(values_N, part.whole) if part.first is None else Piece(values_N, part.first, part.whole)
