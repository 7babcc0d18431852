"""The processes of a run that work together: which device each has, how they join, wait and add up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


def device_of_rank(local_rank: int) -> torch.device:
    """Returns the GPU of this rank, or the CPU where there is none.

    Raises:
        ValueError: There are fewer GPUs.
    """
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"train.devices asks for {local_rank + 1} GPUs or more, this machine has {torch.cuda.device_count()}; set "
            "train.devices to that, or start on several machines with torchrun"
        )
    return torch.device("cuda", local_rank)


def prefer_one_order(device: torch.device) -> None:
    """Lets a GPU add up in the same order every time where it can, before anything is computed on it.

    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


def join_ranks(world_size: int, device: torch.device) -> None:
    """Starts the process group of a run that torchrun launched, before the first evaluation."""
    if world_size > 1 and not dist.is_initialized():
        options: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **options)


def barrier() -> None:
    """Waits for all ranks."""
    if dist.is_initialized():
        dist.barrier()


def summed(values: Sequence[float], device: torch.device) -> list[float]:
    """Returns the values added up over all ranks."""
    if not dist.is_initialized():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)
    dist.all_reduce(tensor)
    return [float(v) for v in tensor.tolist()]
