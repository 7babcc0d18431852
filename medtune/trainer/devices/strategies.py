"""Builds the Lightning strategy that distributes a step: one device, DDP or DeepSpeed ZeRO, on GPUs or CPUs.

Tried with lightning 2.6.6 and deepspeed 0.19.8 in two gloo processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.strategies import (
    DDPStrategy,
    DeepSpeedStrategy,
    ParallelStrategy,
    SingleDeviceStrategy,
    Strategy,
)
from torch import Tensor, nn

from medtune.trainer.recipe.schema import StrategyName


class CpuDeepSpeedStrategy(DeepSpeedStrategy):
    """DeepSpeed on CPUs with gloo; Lightning's own DeepSpeed strategy accepts only CUDA."""

    def setup_environment(self) -> None:
        """Starts the process group without asking for a CUDA accelerator."""
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_environment()
        else:
            ParallelStrategy.setup_environment(self)
            self.setup_distributed()

    def setup_distributed(self) -> None:
        """Joins the ranks; on a CPU it skips Lightning's check of the device index."""
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_distributed()
        else:
            _skip_shared_memory_extension()
            self.set_world_ranks()
            self._init_deepspeed_distributed()

    @property
    def root_device(self) -> torch.device:
        """The device of this rank; it has an index even for a CPU, because DeepSpeed needs one."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device


def _skip_shared_memory_extension() -> None:
    # Without this, starting gloo compiles an extension with ninja and a C++ compiler.
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def build_strategy(name: StrategyName, *, world_size: int, device: torch.device) -> Strategy:
    """Returns the Lightning strategy for a recipe's `train.strategy`.

    Raises:
        ValueError: The strategy needs DeepSpeed, which is not installed.
    """
    if name == "auto" and world_size == 1:
        return SingleDeviceStrategy(device=device)
    if name in ("auto", "ddp"):
        return DDPStrategy(gradient_as_bucket_view=True)
    try:
        import deepspeed  # noqa: F401  (only to say early and clearly that it is missing)
    except ImportError as error:
        raise ValueError(f"train.strategy {name} needs DeepSpeed: pip install 'medtune[deepspeed]'") from error
    stage = int(name.rpartition("_")[2])
    strategy = CpuDeepSpeedStrategy(stage=stage, exclude_frozen_parameters=True, logging_batch_size_per_gpu=1)
    if stage == 3 and device.type == "cpu":
        # CPUs serve for tests; with the default threshold no parameter of a tiny model would be sharded.
        assert isinstance(strategy.config, dict)
        strategy.config["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    return strategy


def gradient_divisor(name: StrategyName, *, world_size: int, accumulate: int) -> int:
    """Returns the number by which Lightning, DeepSpeed and the averaging over ranks divide a device's loss.

    Lightning divides a loss by the number of accumulated forward passes, DeepSpeed's engine does so a second time, and
    both average gradients over the ranks. The loss is already normalised over the whole step, so it is multiplied by
    this number to undo all these divisions.
    """
    return world_size * accumulate * (accumulate if name.startswith("deepspeed") else 1)


def copied(model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Returns a CPU copy of the named parameters, complete on every rank, also under ZeRO-3."""
    wanted = [(n, p) for n, p in model.named_parameters() if n in names]
    with contextlib.ExitStack() as stack:
        if any(hasattr(p, "ds_id") for _, p in wanted):
            import deepspeed

            stack.enter_context(deepspeed.zero.GatheredParameters([p for _, p in wanted]))
        return {n: p.detach().cpu().clone() for n, p in wanted}
