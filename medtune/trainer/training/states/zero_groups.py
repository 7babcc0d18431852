"""Where ZeRO keeps the float32 weights and the moments of each parameter: in flat groups, a part of them on each rank.

Source: deepspeed 0.19.8, `runtime/zero/stage_1_and_2.py` and `stage3.py`. Tried with two and four ranks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from medtune.models.weights.divided.pieces import local_part


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The part of a parameter that this rank holds in a flat group.

    Attributes:
        name: The name of the parameter.
        begin: The place of the part's first value in the rank's flat tensors.
        count: The number of its values there, with ZeRO-3's padding.
        first: The place of its first value in the flattened parameter; None for the equal shares of ZeRO-3.
        whole: The number of values of the whole parameter.
    """

    name: str
    begin: int
    count: int
    first: int | None
    whole: int


@dataclass(frozen=True, slots=True)
class ZeroGroup:
    """Parameters whose float32 weights and moments lie in flat tensors of one order.

    Attributes:
        names: The names of all parameters of the group, the same on every rank.
        parts: What this rank holds of them.
        weights_N: The rank's float32 weights, flat.
        optimizer: The optimizer that updates the flat weights.
    """

    names: tuple[str, ...]
    parts: tuple[Partitioned, ...]
    weights_N: Tensor
    optimizer: torch.optim.Optimizer

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
    """Yields the groups of an engine's optimizer, for ZeRO-1, 2 and 3."""
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
