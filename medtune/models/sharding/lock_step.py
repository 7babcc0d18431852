"""Lets the ranks use one divided model together, each for questions of its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

from medtune.models.sharding.divide import is_divided
from medtune.models.sharding.fsdp_parts import fsdp_in_turns
from medtune.models.sharding.turns import Turns

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
