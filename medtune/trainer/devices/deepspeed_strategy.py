"""DeepSpeed's ZeRO with float32 weights under torch.autocast, on GPUs or CPUs.

All strategies compute alike: what learns is float32 and so are its gradients and moments, and the forward pass runs
under torch.autocast. Left to itself, Lightning lets DeepSpeed convert the whole model to 16 bits instead; only its
optimizer then holds float32 copies, which no checkpoint gets. Tried with lightning 2.6.6 in two gloo processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.plugins.precision import DeepSpeedPrecision
from lightning.pytorch.strategies import DeepSpeedStrategy, ParallelStrategy
from torch import nn

from medtune.models.sharding.lock_step import read_weight
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import NARROW, set_rest, stored_types

_DEEPSPEED_NAMES: dict[Precision, str] = {"bf16-mixed": "bfloat16", "16-mixed": "float16"}


class UnroundedInputs(DeepSpeedPrecision):
    """DeepSpeed's precision for a model under torch.autocast, whose layers round their own inputs.

    Lightning's own rounds all media to 16 bits first, which changes what a tower sees that begins with a layer in
    float32, such as the normalisation of patches in CT-CHAT and RadFM.
    """

    def convert_input(self, data: Any) -> Any:
        return data


class AutocastDeepSpeedStrategy(DeepSpeedStrategy):
    """DeepSpeed with float32 weights under torch.autocast, on GPUs, or on CPUs with gloo.

    Lightning's own DeepSpeed strategy accepts only CUDA, and converts the model to 16 bits.

    Args:
        offloads: Whether the optimizer is kept in the host's memory, and under ZeRO-3 the weights too.
    """

    def __init__(self, stage: int, *, precision: Precision, offloads: bool, device: torch.device) -> None:
        is_gpu = device.type == "cuda"
        super().__init__(
            stage=stage,
            exclude_frozen_parameters=True,
            logging_batch_size_per_gpu=1,
            offload_optimizer=offloads,
            offload_parameters=offloads and stage == 3,
            pin_memory=offloads and is_gpu,
        )
        self._stored_for = precision
        assert isinstance(self.config, dict)
        if precision in NARROW:
            # No module is named whose weights and gradients could be sent in 16 bits.
            autocast = {"enabled": True, "dtype": _DEEPSPEED_NAMES[precision], "lower_precision_safe_modules": []}
            self.config |= {"torch_autocast": autocast, "bf16": {"enabled": False}, "fp16": {"enabled": False}}
        if stage == 3 and not is_gpu:
            # CPUs serve for tests. With the defaults, which are made for large models, no weight of a tiny one would be
            # divided, and none would be let go after it was gathered.
            zero = self.config["zero_optimization"]
            zero |= {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 0}
            zero |= {"stage3_max_live_parameters": 1, "stage3_max_reuse_distance": 1}
        if offloads:
            # torch's own AdamW then steps on the host. DeepSpeed's would have to be compiled first.
            self.config["zero_force_ds_cpu_optimizer"] = False

    def init_deepspeed(self) -> None:
        """Starts the engine; under ZeRO-3 each weight is read and divided before the next one.

        In float16 the loss is scaled as DeepSpeed scales it for models in float16.
        """
        if self.zero_stage_3:
            assert self.model is not None
            # The engine itself would move the whole model to the device first.
            self.divide_weights(self.model)
            self.model.to(self.root_device)
        with _weights_are_masters():
            super().init_deepspeed()
        engine: Any = self.model
        if engine.torch_autocast_enabled() and engine.torch_autocast_dtype() == torch.float16:
            _scale_loss(engine.optimizer)

    def divide_weights(self, model: nn.Module) -> None:
        """Reads the weights of a model and divides them among the ranks, in place and one after another."""
        import deepspeed

        types = stored_types(model, self._stored_for)
        set_rest(model, self._stored_for)

        def read_one_by_one() -> Iterator[nn.Parameter]:
            for name, parameter in model.named_parameters():
                in_file = parameter.data
                read_weight(parameter, name, types.get(name))
                if parameter.data_ptr() == in_file.data_ptr():
                    # The ranks are given the values of rank 0 in place, which would fill memory with the whole file.
                    parameter.data = in_file.clone()
                yield parameter

        # `Init(module=...)` does the same with weights that are there.
        deepspeed.zero.Init(config_dict_or_path=self.config)._convert_to_zero_parameters(read_one_by_one())

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
            skip_shared_memory_extension()
            self.set_world_ranks()
            self._init_deepspeed_distributed()

    @property
    def root_device(self) -> torch.device:
        """The device of this rank; it has an index even for a CPU, because DeepSpeed needs one."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device


@contextmanager
def _weights_are_masters() -> Iterator[None]:
    """Lets ZeRO-3 step the float32 weights themselves, where the optimizer is not offloaded.

    DeepSpeed means to, and copies them all the same: it compares their torch.device with the name of a device, and the
    two are never equal.

    Source: deepspeed 0.19.8, `_create_fp32_partitions` in deepspeed/runtime/zero/stage3.py.
    """
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Optimizer

    own = Optimizer._create_fp32_partitions

    def with_device(self: Any) -> None:
        name = self.device
        self.device = torch.device(name)
        own(self)
        self.device = name

    Optimizer._create_fp32_partitions = with_device
    try:
        yield
    finally:
        Optimizer._create_fp32_partitions = own


def skip_shared_memory_extension() -> None:
    """Lets gloo start without an extension that would be compiled with ninja and a C++ compiler."""
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
        init_scale=2.0**16, scale_window=1000, min_scale=1.0, delayed_shift=1, consecutive_hysteresis=False
    )
    optimizer.dynamic_loss_scale = True
