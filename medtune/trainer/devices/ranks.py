"""Gives each process of a run its device, and lets the processes join, wait for each other and add up values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


def device_of_rank(local_rank: int) -> torch.device:
    """Returns the GPU of this rank, or the CPU if the machine has no GPU.

    Raises:
        ValueError: The machine has fewer GPUs than ranks.
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
    """Asks PyTorch for deterministic algorithms on a GPU where they exist; call it before any computation.

    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


def join_ranks(world_size: int, device: torch.device) -> None:
    """Joins this process to the process group of a run with several processes, before the first evaluation."""
    if world_size > 1 and not dist.is_initialized():
        options: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **options)


def barrier() -> None:
    """Waits until all ranks have reached this call; returns at once in a run with one process."""
    if dist.is_initialized():
        dist.barrier()


def summed(values: Sequence[float], device: torch.device) -> list[float]:
    """Returns each value summed over all ranks."""
    if not dist.is_initialized():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)
    dist.all_reduce(tensor)
    return [float(v) for v in tensor.tolist()]
