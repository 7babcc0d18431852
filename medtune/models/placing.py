"""Brings tensors from the host's memory to a device without waiting for the transfer."""

import torch
from torch import Tensor


def placed(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device; a GPU reads pinned memory by itself, while this process goes on."""
    if device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
