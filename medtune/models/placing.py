"""Brings tensors from the host's memory to a device without waiting for the transfer, and says which lie in it."""

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor


def placed(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device; a GPU reads pinned memory by itself, while this process goes on."""
    if device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def is_on_the_host(tensor: Tensor) -> bool:
    """Returns whether a tensor is whole and in the host's memory, and no stand-in for a plan."""
    stands_in = isinstance(tensor, DTensor | FakeTensor) or hasattr(tensor, "ds_id")
    return not stands_in and tensor.device.type == "cpu"
