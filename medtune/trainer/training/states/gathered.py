"""Brings trained weights together on one rank, one tensor after another."""

import contextlib
from collections.abc import Collection
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def gathered(model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Returns copies of the named parameters in the host's memory of rank 0, and nothing on the other ranks.

    Where weights are divided, every rank has to call it. No more than one tensor is then whole on a device at a time.
    """
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if name in names:
            with _whole(parameter) as tensor:
                if is_first:
                    found[name] = tensor.detach().cpu().clone()
    return found


def _whole(parameter: nn.Parameter) -> contextlib.AbstractContextManager[Any]:
    if hasattr(parameter, "ds_id"):
        return _whole_under_zero_3(parameter)
    if isinstance(parameter, DTensor):
        divided: Any = parameter
        return contextlib.nullcontext(divided.detach().full_tensor())
    return contextlib.nullcontext(parameter)


@contextlib.contextmanager
def _whole_under_zero_3(parameter: nn.Parameter) -> Any:
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        yield parameter
