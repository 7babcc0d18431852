"""Gathers the parts of a model under ZeRO-3 in turns, so that each rank may use them in an order of its own.

Source: deepspeed 0.19.8, deepspeed/runtime/zero/parameter_offload.py (the hooks that call the coordinator) and
partitioned_param_coordinator.py. DeepSpeed's own coordinator expects the same sequence of modules on every rank.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from medtune.models.sharding.lock_step import Turns


class ZeroPart:
    """Parameters that ZeRO-3 gathers at once: those that a module holds itself, or a single one."""

    def __init__(self, parameters: Sequence[Any]) -> None:
        self._parameters = sorted(parameters, key=lambda p: int(p.ds_id))

    @property
    def names(self) -> tuple[int, ...]:
        """DeepSpeed's numbers of the parameters."""
        return tuple(int(p.ds_id) for p in self._parameters)

    def gather(self) -> None:
        """Makes the parameters whole; all ranks have to call it together."""
        # The ranks gather the same tensors, so that those that a rank holds already are gathered once more.
        give_back(self._parameters)
        self._parameters[0].all_gather_coalesced(self._parameters).wait()

    def help(self) -> None:
        """Takes part in gathering, and leaves each parameter whole or divided as it was."""
        divided = [p for p in self._parameters if not _is_whole(p)]
        self.gather()
        give_back(divided)


def give_back(parameters: Sequence[Any]) -> None:
    """Divides those parameters that are whole, also where a module on this rank waits for them or is running."""
    for p in parameters:
        if _is_whole(p):
            # DeepSpeed refuses to divide what a module uses; here that module gathers it again before it goes on.
            using = set(p.ds_active_sub_modules)
            p.ds_active_sub_modules.clear()
            p.partition()
            p.ds_active_sub_modules.update(using)


class _Coordinator:
    def __init__(self, model: nn.Module, turns: Turns) -> None:
        from deepspeed.runtime.zero.partitioned_param_coordinator import iter_params
        from deepspeed.utils import z3_leaf_module

        self._turns = turns
        self._held: dict[nn.Module, list[Any]] = {
            module: list(iter_params(module, recurse=z3_leaf_module(module))) for module in model.modules()
        }
        self._running: list[nn.Module] = []
        self._borrowed: dict[nn.Module, list[Any]] = {}
        alone = [[p] for p in model.parameters()]
        self.parts = [ZeroPart(held) for held in (*filter(None, self._held.values()), *alone)]
        self._numbers = {part.names: number for number, part in reversed(list(enumerate(self.parts)))}
        self.hierarchy = 0

    def trace_prologue(self, module: nn.Module) -> None: ...

    def is_record_trace(self) -> bool:
        return False

    def reset_step(self) -> None: ...

    def fetch_sub_module(self, module: nn.Module, forward: bool) -> None:
        self._running.append(module)
        self._fetch(module, self._held[module])

    def fetch_borrowed(self, parameter: Any, *arguments: Any) -> None:
        module = self._running[-1]
        self._borrowed.setdefault(module, []).append(parameter)
        self._fetch(module, [parameter])

    def release_sub_module(self, module: nn.Module, forward: bool = False) -> None:
        self._running.pop()
        for p in (*self._held[module], *self._borrowed.pop(module, ())):
            p.ds_active_sub_modules.discard(module.ds_id)
            if not p.ds_active_sub_modules:
                give_back([p])

    @torch.no_grad()
    def _fetch(self, module: nn.Module, parameters: Sequence[Any]) -> None:
        for p in parameters:
            p.ds_active_sub_modules.add(module.ds_id)
        if not all(map(_is_whole, parameters)):
            number = self._numbers[ZeroPart(parameters).names]
            self._turns.wait_for(number)
            self.parts[number].gather()


@contextmanager
def zero_in_turns(engine: Any, model: nn.Module, turns: Turns) -> Iterator[None]:
    """Makes the ranks agree before ZeRO-3 gathers anything; all ranks enter and leave together.

    Parameters that are whole when the context begins or ends are divided again.
    """
    offload = getattr(engine.optimizer, "parameter_offload", engine.optimizer)
    own = offload.param_coordinator
    own.release_and_reset_all(offload.module)
    coordinator = _Coordinator(offload.module, turns)
    turns.begin(coordinator.parts)
    offload.param_coordinator = coordinator
    parameters: list[Any] = list(model.parameters())
    gathering = {p: p.all_gather for p in parameters}
    for p in gathering:
        # A module that reads the weights of another one makes DeepSpeed gather them without any hook.
        p.all_gather = functools.partial(coordinator.fetch_borrowed, p)
    try:
        yield
    finally:
        for p, gather in gathering.items():
            p.all_gather = gather
        offload.param_coordinator = own
        own.release_and_reset_all(offload.module)


def _is_whole(parameter: Any) -> bool:
    return str(parameter.ds_status.name) == "AVAILABLE"
