"""Lets the ranks use one divided model together, each for questions of its own.

The divided parts of a model under FSDP2, gathered in turns.

Source: torch 2.15.0, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, `FSDPParamGroup.unshard`,
`wait_for_unshard` and `_to_sharded`. They have no public names.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

from medtune.models.sharding.divide import is_divided
from medtune.models.sharding.turns import Turns


class FsdpPart:
    """The parameters that FSDP2 gathers at once.

    Args:
        group: FSDP2's group of parameters.
        number: The number of this part among those of the model.
        turns: The agreement of the ranks.
    """

    def __init__(self, group: Any, number: int, turns: Turns) -> None:
        self._group = group
        self._number = number
        self._turns = turns
        self._unshard = group.unshard

    def hook(self) -> None:
        """Lets FSDP2 wait for this part's turn before it gathers the parameters."""
        self._group.unshard = self._unshard_in_turn

    def unhook(self) -> None:
        """Lets FSDP2 gather the parameters at once again, and gives them back if they are whole."""
        del self._group.unshard
        self._settle()
        self._group._to_sharded()

    def help(self) -> None:
        """Takes part in gathering, and leaves the parameters whole or divided as they were."""
        self._settle()
        was_whole = self._group.is_unsharded
        self._group._to_sharded()
        self._unshard()
        self._group.wait_for_unshard()
        if not was_whole:
            self._group._to_sharded()

    def _settle(self) -> None:
        if self._group._all_gather_result is not None:
            self._group.wait_for_unshard()

    def _unshard_in_turn(self, async_op: bool = False) -> None:
        if self._group._all_gather_result is None and not self._group.is_unsharded:
            self._turns.wait_for(self._number)
            self._unshard(async_op)


@contextmanager
def fsdp_in_turns(model: nn.Module, turns: Turns) -> Iterator[None]:
    """Makes the ranks agree before FSDP2 gathers anything; all ranks enter and leave together.

    Parameters that are whole when the context begins or ends are divided again.
    """
    divided = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in divided[:1]:
        # The first use of a module makes it the root, which must be the same one on every rank.
        module._get_fsdp_state()._lazy_init()
    for module in divided:
        module.reshard()
    parts = [FsdpPart(group, number, turns) for number, group in enumerate(_groups(divided))]
    turns.begin(parts)
    for part in parts:
        part.hook()
    try:
        yield
    finally:
        for part in parts:
            part.unhook()


def _groups(divided: Sequence[FSDPModule]) -> list[Any]:
    found = [group for module in divided for group in module._get_fsdp_state()._fsdp_param_groups]
    return list({id(group): group for group in found}.values())


InTurns = Callable[[nn.Module, Turns], AbstractContextManager[None]]
"""Makes the ranks agree before a strategy gathers a part of the model, while its context lasts."""

_group_of_world: list[dist.ProcessGroup] = []
"""The process group that was joined, and the group of the same ranks that exchanges integers."""


@contextmanager
def lock_step(
    model: nn.Module,
    *,
    timeout: timedelta | None = None,
    stopping: Callable[[], bool] = lambda: False,
    in_turns: InTurns | None = None,
) -> Iterator[Turns | None]:
    """Gives the agreement of the ranks while the context lasts, in which each rank may use the model as it needs.

    All ranks have to enter. At the end each waits for the others and helps them meanwhile. If one leaves by an error,
    all do. Where the model is whole on each rank, nothing happens, and None is given.

    Args:
        model: The model.
        timeout: How long a rank waits for another one, which may be reading media; None takes that of the process
            group that was joined.
        stopping: Returns whether this rank was asked to stop; all ranks then stop together.
        in_turns: What makes the strategy's gatherings wait for their turn; None is for a model under FSDP2.

    Raises:
        RanksFailedError: Another rank has failed.
        StoppedInTurn: Some rank was asked to stop.
    """
    if not is_divided(model):
        yield None
        return
    if in_turns is None and not any(isinstance(module, FSDPModule) for module in model.modules()):
        raise ValueError("the model is divided by another strategy than FSDP2, which has to say how it gathers weights")
    turns = Turns(_group(timeout), stopping)
    with (in_turns or fsdp_in_turns)(model, turns):
        try:
            yield turns
            turns.meet()
        except BaseException as error:
            turns.fail(error)
            raise


def _group(timeout: timedelta | None) -> dist.ProcessGroup:
    world = dist.group.WORLD
    assert world is not None
    if not _group_of_world or _group_of_world[0] is not world:
        made = dist.new_group(backend="gloo", timeout=timeout)
        assert isinstance(made, dist.ProcessGroup)
        _group_of_world[:] = [world, made]
    return _group_of_world[1]
