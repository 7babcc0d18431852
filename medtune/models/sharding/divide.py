"""Divides a model among ranks by FSDP2: each rank keeps its share of every weight and gathers one unit at a time.

The layers of the language model and of a tower of transformers are units, and so are the tower, the projector, and the
embeddings and the output layer where these are not one weight. What is left belongs to the whole model. A unit is read
from its file, converted and divided before the next one is read, so that a process never holds more than its share and
one unit.

Source: torch.distributed.fsdp.fully_shard (torch 2.15).
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from medtune.models.contract import Model
from medtune.models.sharding.unread import forget_conversions, read
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.precision import in_type, set_rest, stored_types
from medtune.models.vlm import VisionLanguageModel

METHODS = ("encode", "reply", "generate", "features")
"""The methods of a model that compute, beside `forward`; each gathers what belongs to no unit."""


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
        mesh: The ranks, along one dimension.
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
    """Reads a parameter that is not divided yet, in the type in which it is stored, in place.

    Args:
        parameter: The parameter.
        name: Its name, for the message.
        dtype: Its type; None keeps it, as for whole numbers.
    """
    values = read(parameter)
    parameter.data = (values if dtype is None else in_type(name, values, dtype)).contiguous()
    forget_conversions(parameter)
