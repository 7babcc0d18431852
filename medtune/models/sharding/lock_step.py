"""Divides a model among ranks by FSDP2, and lets them use it together, each in its own way.

The layers of the language model and of a tower of transformers are units, and so are the tower, the projector, and the
embeddings and the output layer where these are not one weight. What is left belongs to the whole model. A unit is read
from its file, converted and divided before the next one is read, so that a process never holds more than its share and
one unit.

A rank that needs a divided part of the model gets it only if all ranks take part in gathering it. Before each such
gathering the ranks therefore agree on one part: each says which part it needs next, or that it needs none, and the part
that comes first in the model is gathered. A rank that needs another one, or none, helps and asks again. So ranks may
have different numbers of questions, images, passes and tokens. They fall into step by themselves: a rank that is behind
catches up, because earlier parts go first. An error on one rank is told to the others in the same exchange, and a wish
to stop as well.

Source: torch.distributed.fsdp.fully_shard (torch 2.15); torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py,
`FSDPParamGroup.unshard`, `wait_for_unshard` and `_to_sharded`, which have no public names.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from medtune.models.contract import Model
from medtune.models.sharding.unread import forget_conversions, read
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import in_type, set_rest, stored_types
from medtune.models.vlm import VisionLanguageModel

METHODS = ("encode", "reply", "generate", "features")
"""The methods of a model that compute, beside `forward`; each gathers what belongs to no unit."""

_NO_PART = 2**62
_STOP = -(2**62)
_MESSAGE_BYTES = 2000
_group_of_world: list[dist.ProcessGroup] = []
"""The process group that was joined, and the group of the same ranks that exchanges integers."""


def is_divided(model: nn.Module) -> bool:
    """Returns whether the weights of a model are divided among ranks, by FSDP2 or by ZeRO-3.

    The ranks then train with the same sequence of units, and answer inside `lock_step`.
    """
    return any(isinstance(p, DTensor) or hasattr(p, "ds_id") for p in model.parameters())


def divide(model: Model, precision: Precision, mesh: DeviceMesh) -> None:
    """Reads the weights of a model and divides them among the ranks of a mesh, in place and unit by unit.

    The values are those that the undivided model has: first come the conversions of weights that were left in their
    files, then the type in which the precision stores a weight.

    Args:
        model: The model in the host's memory, with its adapters; `requires_grad` says which parameters learn in any
            stage.
        precision: The precision that the model computes in, resolved for the device.
    """
    types = stored_types(model, precision)
    set_rest(model, precision)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for unit in (*units_of(model), model):
        for parameter in unit.parameters():
            if not isinstance(parameter, DTensor):
                name = names[id(parameter)]
                read_weight(parameter, name, types.get(name))
        fully_shard(unit, mesh=mesh, reshard_after_forward=True)
    # Buffers are small and whole on every rank.
    model.to(torch.device(mesh.device_type, torch.cuda.current_device()) if mesh.device_type == "cuda" else "cpu")
    # A rank whose rows show no media leaves out weights that others use.
    assert isinstance(model, FSDPModule)
    model.set_reduce_scatter_unused_params(True)
    for method in METHODS:
        register_fsdp_forward_method(model, method)
    assert all(isinstance(p, DTensor) and not p.is_meta for p in model.parameters()), "a weight was not divided"


def ranks_mesh(device: torch.device, world_size: int) -> DeviceMesh:
    """Returns the mesh of all ranks of a run, which have joined before."""
    return init_device_mesh(device.type, (world_size,))


def units_of(model: Model) -> list[nn.Module]:
    """Returns the units of a model, the inner ones first."""
    layers = list(_outermost_layers(model))
    language = model.of_transformers
    ends = [language.get_input_embeddings(), language.get_output_embeddings()]
    is_tied = len({id(p) for end in ends if isinstance(end, nn.Module) for p in end.parameters()}) < 2
    wholes: list[nn.Module] = [model.vision, model.projector] if isinstance(model, VisionLanguageModel) else []
    separate = [] if is_tied else [end for end in ends if isinstance(end, nn.Module)]
    return [each for each in (*layers, *separate, *wholes) if any(True for _ in each.parameters())]


def _outermost_layers(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, GradientCheckpointingLayer):
            yield child
        else:
            yield from _outermost_layers(child)


def read_weight(parameter: nn.Parameter, name: str, dtype: torch.dtype | None) -> None:
    """Reads a parameter that is not divided yet, in the type in which it is stored, in place."""
    values = read(parameter)
    parameter.data = (values if dtype is None else in_type(name, values, dtype)).contiguous()
    forget_conversions(parameter)


class RanksFailedError(RuntimeError):
    """Raised on every rank but the one that failed; the message names that rank and its error."""


class StoppedInTurn(KeyboardInterrupt):
    """Raised on all ranks in the same exchange, after any of them was asked to stop."""


class Part(Protocol):
    """Weights that the ranks gather together."""

    def help(self) -> None:
        """Takes part in gathering the weights, and leaves this rank with what it had before."""
        ...


class Turns:
    """What the ranks agree on while they answer with one divided model.

    Args:
        group: A process group of all ranks that can reduce integers in the host's memory.
        stopping: Returns whether this rank was asked to stop; all ranks then stop in the same exchange.
    """

    def __init__(self, group: dist.ProcessGroup, stopping: Callable[[], bool] = lambda: False) -> None:
        self._group = group
        self._stopping = stopping
        self._parts: Sequence[Part] = ()
        self._is_over = False

    def begin(self, parts: Sequence[Part]) -> None:
        """Takes the parts of the model, in the same order on every rank."""
        self._parts = parts

    def wait_for(self, part: int) -> None:
        """Helps the other ranks until all gather this part; the caller then takes part for itself."""
        while (chosen := self._agreed(part)) != part:
            with torch.no_grad():
                self._parts[chosen].help()

    def meet(self) -> None:
        """Helps the other ranks until all of them are here."""
        self.wait_for(_NO_PART)

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks that this one cannot go on; does nothing if they know or have failed themselves."""
        if self._is_over:
            return
        self._is_over = True
        is_stop = isinstance(error, KeyboardInterrupt)
        found = self._least(_STOP if is_stop else -1 - dist.get_rank(self._group))
        if found != _STOP:
            self._broadcast_message(-1 - found, f"{type(error).__name__}: {error}")

    def _agreed(self, wish: int) -> int:
        if self._is_over:
            raise RuntimeError("the ranks have ended their turns, and a divided model cannot be used any more")
        found = self._least(_STOP if self._stopping() else wish)
        if found >= 0:
            return found
        self._is_over = True
        if found == _STOP:
            raise StoppedInTurn
        failed = -1 - found
        raise RanksFailedError(f"rank {failed} failed and the others stop: {self._broadcast_message(failed, '')}")

    def _least(self, wish: int) -> int:
        wishes = torch.tensor([wish])
        dist.all_reduce(wishes, dist.ReduceOp.MIN, group=self._group)
        return int(wishes)

    def _broadcast_message(self, failed: int, message: str) -> str:
        said = message.encode()[:_MESSAGE_BYTES]
        sent = torch.zeros(_MESSAGE_BYTES, dtype=torch.uint8)
        sent[: len(said)] = torch.tensor(list(said), dtype=torch.uint8)
        dist.broadcast(sent, group=self._group, group_src=failed)
        return bytes(sent.tolist()).rstrip(b"\0").decode(errors="ignore")


class FsdpPart:
    """The parameters that FSDP2 gathers at once."""

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
