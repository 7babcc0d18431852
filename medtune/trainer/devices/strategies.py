"""Lightning's strategies, which spread a step over devices: one device, DDP or DeepSpeed ZeRO, on GPUs and CPUs.

Tried with lightning 2.6.6 and deepspeed 0.19.8, two gloo processes.
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
    """DeepSpeed on CPUs with gloo; Lightning's own refuses anything but CUDA."""

    def setup_environment(self) -> None:
        """Starts the process group without asking for a CUDA accelerator."""
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_environment()
        else:
            ParallelStrategy.setup_environment(self)
            self.setup_distributed()

    def setup_distributed(self) -> None:
        """Joins the ranks; there is no device index to be checked on a CPU."""
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_distributed()
        else:
            _skip_shared_memory_extension()
            self.set_world_ranks()
            self._init_deepspeed_distributed()

    @property
    def root_device(self) -> torch.device:
        """The device of this rank; DeepSpeed wants an index even of a CPU."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device


def _skip_shared_memory_extension() -> None:
    # Otherwise gloo start-up compiles an extension with ninja and a C++ compiler.
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def build_strategy(name: StrategyName, *, world_size: int, device: torch.device) -> Strategy:
    """Returns Lightning's strategy.

    Raises:
        ValueError: DeepSpeed is asked for and not installed.
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
        # CPUs are for tests, and below the default threshold nothing of a tiny model would be sharded.
        assert isinstance(strategy.config, dict)
        strategy.config["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    return strategy


def gradient_divisor(name: StrategyName, *, world_size: int, accumulate: int) -> int:
    """Returns what stands between a device's loss and its share of the step's gradient.

    Lightning divides a loss by the accumulated parts, DeepSpeed's engine does so once more, and both average over
    the ranks. The loss is already normalised over the whole step, so all of it has to be undone.
    """
    return world_size * accumulate * (accumulate if name.startswith("deepspeed") else 1)


def copied(model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Returns a CPU copy of the named parameters, whole on every rank, also under ZeRO-3."""
    wanted = [(n, p) for n, p in model.named_parameters() if n in names]
    with contextlib.ExitStack() as stack:
        if any(hasattr(p, "ds_id") for _, p in wanted):
            import deepspeed

            stack.enter_context(deepspeed.zero.GatheredParameters([p for _, p in wanted]))
        return {n: p.detach().cpu().clone() for n, p in wanted}
