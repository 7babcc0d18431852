"""Builds the Lightning strategy that distributes a step: one device, DDP or DeepSpeed ZeRO, on GPUs or CPUs.

All strategies compute alike: what learns is float32 and so are its gradients and moments, and the forward pass runs
under torch.autocast. Left to itself, Lightning switches DeepSpeed to a mixed precision of its own instead, in which the
whole model is converted to 16 bits and only DeepSpeed's optimizer holds float32 copies, which no checkpoint gets.

Tried with lightning 2.6.6 and deepspeed 0.19.8 in two gloo processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.plugins.precision import DeepSpeedPrecision
from lightning.pytorch.strategies import (
    DDPStrategy,
    DeepSpeedStrategy,
    FSDPStrategy,
    ModelParallelStrategy,
    ParallelStrategy,
    SingleDeviceStrategy,
    Strategy,
)
from torch import Tensor, nn

from medtune.models.tuning.plan import Precision
from medtune.models.tuning.precision import NARROW
from medtune.trainer.recipe.schema import StrategyName


class UnroundedInputs(DeepSpeedPrecision):
    """DeepSpeed's precision for a model under torch.autocast, whose layers round their own inputs.

    Lightning's own rounds all media to 16 bits first, which changes what a tower sees that begins with a layer in
    float32, such as the normalisation of patches in CT-CHAT and RadFM.
    """

    def convert_input(self, data: Any) -> Any:
        """Returns the batch as it is."""
        return data


class AutocastDeepSpeedStrategy(DeepSpeedStrategy):
    """DeepSpeed with float32 weights under torch.autocast, on GPUs, or on CPUs with gloo.

    Lightning's own DeepSpeed strategy accepts only CUDA, and converts the model to 16 bits.
    """

    def init_deepspeed(self) -> None:
        """Starts the engine; under ZeRO-3 each parameter is shared out before the next one reaches the device.

        In float16 the loss is scaled as DeepSpeed scales it for models in float16.
        """
        if self.zero_stage_3:
            import deepspeed

            assert self.model is not None
            # The engine itself would move the whole model to the device first.
            deepspeed.zero.Init(module=self.model, config_dict_or_path=self.config)
            self.model.to(self.root_device)
        super().init_deepspeed()
        engine: Any = self.model
        if engine.torch_autocast_enabled() and engine.torch_autocast_dtype() == torch.float16:
            _scale_loss(engine.optimizer)

    def validation_step(self, *arguments: Any, **keywords: Any) -> Any:
        """Validates with the module itself, past the engine: the ranks ask different numbers of questions."""
        assert self.lightning_module is not None
        with self.precision_plugin.val_step_context():
            return self.lightning_module.validation_step(*arguments, **keywords)

    def setup_environment(self) -> None:
        """Leaves the rounding of media to the layers, and starts the process group without asking for a CUDA device."""
        if isinstance(self.precision_plugin, DeepSpeedPrecision):
            precision: Any = self.precision_plugin.precision
            self.precision_plugin = UnroundedInputs(precision)
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


_DEEPSPEED_NAMES: dict[Precision, str] = {"bf16-mixed": "bfloat16", "16-mixed": "float16"}


def _skip_shared_memory_extension() -> None:
    # Without this, starting gloo compiles an extension with ninja and a C++ compiler.
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def _scale_loss(optimizer: Any) -> None:
    """Lets a ZeRO optimizer scale the loss, and skip a step on all ranks if a gradient on any rank is not finite.

    What DeepSpeed does by itself under torch.autocast cannot be used: it gives each rank a `GradScaler` that sees the
    gradients of that rank only, after they were clipped by the norm of scaled gradients.
    """
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler

    optimizer.torch_autocast_gradscaler = None
    optimizer.loss_scaler = DynamicLossScaler(
        init_scale=2.0**16,
        scale_window=1000,
        min_scale=1.0,
        delayed_shift=1,
        consecutive_hysteresis=False,
    )
    optimizer.dynamic_loss_scale = True


def build_strategy(name: StrategyName, *, world_size: int, device: torch.device, precision: Precision) -> Strategy:
    """Returns the Lightning strategy for a recipe's `train.strategy` and `train.precision`.

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
    strategy = AutocastDeepSpeedStrategy(stage=stage, exclude_frozen_parameters=True, logging_batch_size_per_gpu=1)
    assert isinstance(strategy.config, dict)
    if precision in NARROW:
        # No module is named whose weights and gradients could be sent in 16 bits.
        autocast = {"enabled": True, "dtype": _DEEPSPEED_NAMES[precision], "lower_precision_safe_modules": []}
        strategy.config |= {"torch_autocast": autocast, "bf16": {"enabled": False}, "fp16": {"enabled": False}}
    if stage == 3 and device.type == "cpu":
        # CPUs serve for tests; with the default threshold no parameter of a tiny model would be sharded.
        strategy.config["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    return strategy


def refuse_strategy(strategy: Strategy) -> None:
    """Refuses a Lightning strategy under which the ranks could not validate, each with questions of its own.

    Raises:
        ValueError: The strategy shards the weights; the message says what to take instead.
    """
    own = isinstance(strategy, AutocastDeepSpeedStrategy)
    sharded = isinstance(strategy, FSDPStrategy | ModelParallelStrategy)
    if sharded or (isinstance(strategy, DeepSpeedStrategy) and strategy.zero_stage_3 and not own):
        raise ValueError(
            f"{type(strategy).__name__} shards the weights, and each rank would wait for the others' questions while "
            "validating: take 'ddp' or 'deepspeed_stage_2', or `medtune run` with train.strategy=deepspeed_stage_3"
        )


def gradient_divisor(strategy: Strategy, *, world_size: int, accumulate: int) -> int:
    """Returns the number by which Lightning, DeepSpeed and the averaging over ranks divide a device's loss.

    Lightning divides a loss by the number of accumulated forward passes, DeepSpeed's engine does so a second time, and
    both average gradients over the ranks. The loss is already normalised over the whole step, so it is multiplied by
    this number to undo all these divisions.
    """
    return world_size * accumulate * (accumulate if isinstance(strategy, DeepSpeedStrategy) else 1)


def copied(model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Returns a CPU copy of the named parameters, complete on every rank, also under ZeRO-3."""
    wanted = [(n, p) for n, p in model.named_parameters() if n in names]
    with contextlib.ExitStack() as stack:
        if any(hasattr(p, "ds_id") for _, p in wanted):
            import deepspeed

            stack.enter_context(deepspeed.zero.GatheredParameters([p for _, p in wanted]))
        return {n: p.detach().cpu().clone() for n, p in wanted}
