"""Computes the last layer of a decoder only where its states are read, while its keys and values come from all tokens.

A training step and a likelihood read the states of a few places: those before the tokens of answers. What the last
layer makes of other tokens nobody sees, neither forward nor backward.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from transformers.modeling_layers import GradientCheckpointingLayer

_BY_TOKEN = ("mlp", "self_attn.q_proj", "self_attn.o_proj", "cross_attn.q_proj", "cross_attn.o_proj")
"""The modules of a layer that make of each token something that depends on no other."""
_WORTH = 0.5
"""The share of the tokens that are read, below which it pays to take them out."""


@contextmanager
def read_alone(decoder: nn.Module, row_T: Tensor, place_T: Tensor) -> Iterator[None]:
    """Lets the last layer of a decoder leave tokens out whose states nobody reads, while the block runs it.

    A layer that is recomputed in the backward pass runs outside the block, and stays whole. So does one with dropout,
    which would draw other numbers than where it is recomputed, and one on a GPU, where finding out which places are the
    same would wait for the device.

    Args:
        row_T: The row of each place that is read.
        place_T: The place in its row.
    """
    layers: Any = getattr(decoder, "layers", None)
    if layers is None or row_T.device.type != "cpu" or row_T.numel() == 0 or not _can_leave_out(layers[-1]):
        yield
        return
    # A place at which a tree branches is read for each branch.
    row_R, place_R = torch.stack([row_T, place_T]).unique(dim=1)
    modules = dict(layers[-1].named_modules())
    changed = [modules[name] for name in _BY_TOKEN if name in modules and not _draws(modules[name])]
    before = [module.__dict__.get("forward") for module in changed]
    try:
        for module in changed:
            module.forward = _at_places_alone(row_R, place_R, module.forward)
        yield
    finally:
        for module, forward in zip(changed, before, strict=True):
            del module.__dict__["forward"]
            if forward is not None:
                module.__dict__["forward"] = forward


def _can_leave_out(layer: nn.Module) -> bool:
    # A plan runs the layers of a GPU's pass without values, and no layer whole there may be a part here.
    if any(isinstance(each, FakeTensor) for each in layer.parameters()):
        return False
    recomputes = isinstance(layer, GradientCheckpointingLayer) and layer.gradient_checkpointing
    return not (layer.training and recomputes)


def _draws(module: nn.Module) -> bool:
    return any(isinstance(each, nn.Dropout) and each.training and each.p > 0 for each in module.modules())


def _at_places_alone(row_R: Tensor, place_R: Tensor, forward: Callable[..., Any]) -> Callable[..., Any]:
    def at(states_BLE: Tensor, *others: Any, **named: Any) -> Any:
        if states_BLE.dim() != 3 or len(row_R) > _WORTH * states_BLE.shape[0] * states_BLE.shape[1]:
            return forward(states_BLE, *others, **named)
        made_1RE = forward(states_BLE[row_R, place_R].unsqueeze(0), *others, **named)
        if not isinstance(made_1RE, Tensor):
            return forward(states_BLE, *others, **named)
        empty_BLE = made_1RE.new_zeros((*states_BLE.shape[:2], made_1RE.shape[-1]))
        return empty_BLE.index_put((row_R, place_R), made_1RE[0])

    return at
