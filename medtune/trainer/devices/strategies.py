"""Builds the Lightning strategy that distributes a step, and lets go of a model before the next one is loaded.

Lightning's trainer, module, strategy and loops hold one another, so that only Python's collector frees them; DeepSpeed
keeps an engine in three more places. Tried with lightning 2.6.6, torch 2.15 and deepspeed 0.19.8 in two gloo processes.
"""

import gc
import warnings
import weakref
from typing import Any

import torch
from lightning.pytorch.strategies import (
    DDPStrategy,
    DeepSpeedStrategy,
    FSDPStrategy,
    ModelParallelStrategy,
    SingleDeviceStrategy,
    Strategy,
)

from medtune.models.tuning.plan import Precision
from medtune.trainer.recipe.schema import StrategyName


def build_strategy(name: StrategyName, *, world_size: int, device: torch.device, precision: Precision) -> Strategy:
    """Returns the Lightning strategy for a recipe's `train.strategy` and `train.precision`."""
    if name == "auto" and world_size == 1:
        return SingleDeviceStrategy(device=device)
    if name in ("auto", "ddp"):
        # Towers have weights that no answer reads, such as LLaVA's last layer, and a batch without media reads none of
        # them. Without this setting, the second step would be refused.
        return DDPStrategy(gradient_as_bucket_view=True, find_unused_parameters=True)
    if name == "fsdp":
        return ModelParallelStrategy(data_parallel_size=world_size, tensor_parallel_size=1)
    try:
        import deepspeed  # noqa: F401  (only to say early and clearly that it is missing)
    except ImportError as error:
        raise ValueError(f"train.strategy {name} needs DeepSpeed: pip install 'deepspeed>=0.18'") from error
    from medtune.trainer.devices.deepspeed_strategy import AutocastDeepSpeedStrategy

    offloads = name.endswith("_offload")
    return AutocastDeepSpeedStrategy(int(name.split("_")[2]), precision=precision, offloads=offloads, device=device)


def divides_weights(strategy: Strategy) -> bool:
    """Returns whether a strategy divides the weights among the ranks, so that it stores them in their types itself."""
    return _is_own_zero_3(strategy) or isinstance(strategy, ModelParallelStrategy)


def _is_own_zero_3(strategy: Strategy) -> bool:
    if not isinstance(strategy, DeepSpeedStrategy) or not strategy.zero_stage_3:
        return False
    from medtune.trainer.devices.deepspeed_strategy import AutocastDeepSpeedStrategy

    return isinstance(strategy, AutocastDeepSpeedStrategy)


def refuse_strategy(strategy: Strategy) -> None:
    """Refuses a Lightning strategy that divides the weights in a way in which the module could not compute."""
    foreign_zero_3 = isinstance(strategy, DeepSpeedStrategy) and strategy.zero_stage_3 and not _is_own_zero_3(strategy)
    if isinstance(strategy, FSDPStrategy) or foreign_zero_3:
        raise ValueError(
            f"{type(strategy).__name__} shards the weights in a way that the model cannot follow: take 'ddp', "
            "'deepspeed_stage_2' or ModelParallelStrategy(data_parallel_size=DEVICES, tensor_parallel_size=1), or "
            "`medtune run` with train.strategy=deepspeed_stage_3"
        )


def gradient_divisor(strategy: Strategy, *, world_size: int, accumulate: int) -> int:
    """Returns the number by which Lightning, DeepSpeed and the averaging over ranks divide a device's loss.

    Lightning divides a loss by the number of accumulated forward passes, DeepSpeed's engine does so a second time, and
    both average gradients over the ranks. The loss is already normalised over the whole step, so it is multiplied by
    this number to undo all these divisions.
    """
    return world_size * accumulate * (accumulate if isinstance(strategy, DeepSpeedStrategy) else 1)


def end_engine(strategy: Strategy) -> None:
    """Ends DeepSpeed's engine after a training, so that nothing of it outlives its strategy.

    Under ZeRO-3 the model cannot compute afterwards. Other strategies have no engine.
    """
    if not isinstance(strategy, DeepSpeedStrategy):
        return
    engine: Any = strategy.model
    if not hasattr(engine, "destroy"):
        return
    engine.destroy()
    from deepspeed.runtime.zero import parameter_offload
    from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

    # The set-up of the hooks pushes the engine's module, and nothing takes it off again.
    parameter_offload.FWD_MODULE_STACK.clear()
    # A cache of results on a method, which keeps its object and modules.
    cached: Any = vars(PartitionedParameterCoordinator).get("_PartitionedParameterCoordinator__params_to_release")
    for each in (cached, *(cell.cell_contents for cell in getattr(cached, "__closure__", None) or ())):
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def check_freed(model: weakref.ReferenceType[Any], *, what: str) -> bool:
    """Frees what nobody uses any more and returns whether a model is gone; warns if it is not."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    is_gone = model() is None
    if not is_gone:
        warnings.warn(f"{what} is still in memory, beside the next model", RuntimeWarning, stacklevel=2)
    return is_gone
