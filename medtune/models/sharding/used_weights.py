"""Finds the weights that no rank used in a step, so that the optimizer leaves them alone as it does on one device.

FSDP2 gives a weight that got no gradient one of zeros, because another rank may have used it. Weight decay and the
moments of the optimizer would then change a weight that no answer depends on, such as LLaVA's last vision layer.
"""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils.hooks import RemovableHandle


class UsedWeights:
    """Notes which weights of a divided model get a gradient on this rank."""

    def __init__(self, model: nn.Module) -> None:
        self._names = [name for name, p in model.named_parameters() if isinstance(p, DTensor)]
        self._used: set[str] = set()
        self._unseen: dict[str, RemovableHandle] = {}
        for name, module in model.named_modules():
            if _is_unit(module):
                self._unseen[name] = module.register_forward_pre_hook(partial(self._watch, name))

    def _watch(self, unit: str, module: nn.Module, _: Any) -> None:
        # While a unit computes, its parameters are the gathered ones, which stay the same objects in every step.
        self._unseen.pop(unit).remove()
        for name, parameter in module.named_parameters(unit):
            if parameter.requires_grad and not isinstance(parameter, DTensor):
                parameter.register_post_accumulate_grad_hook(partial(self._note, name))

    def _note(self, name: str, _: Tensor) -> None:
        self._used.add(name)

    def take_out_unused(self, model: nn.Module) -> None:
        """Removes the gradients of weights that no rank has used since the last call; every rank has to call it."""
        parameters = dict(model.named_parameters())
        learning = [name for name in self._names if parameters[name].requires_grad]
        device = parameters[learning[0]].device if learning else torch.device("cpu")
        used = torch.tensor([name in self._used for name in learning], dtype=torch.int32, device=device)
        self._used.clear()
        if dist.is_initialized():
            dist.all_reduce(used, op=dist.ReduceOp.MAX)
        for name, is_used in zip(learning, used.tolist(), strict=True):
            if not is_used:
                parameters[name].grad = None


def _is_unit(module: nn.Module) -> bool:
    return isinstance(module, FSDPModule)
