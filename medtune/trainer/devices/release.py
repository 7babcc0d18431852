"""Lets go of a model that is no longer used, and checks that its memory is free before the next one is loaded.

Lightning's trainer, module, strategy and loops hold one another, so that only Python's collector frees them. DeepSpeed
keeps an engine beyond that, in three places.

Tried with lightning 2.6.6 and deepspeed 0.19.8.
"""

import gc
import warnings
import weakref
from typing import Any

import torch
from lightning.pytorch.strategies import DeepSpeedStrategy, Strategy


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
    """Frees what nobody uses any more and returns whether a model is gone; warns if it is not.

    Args:
        model: The model, which the caller no longer holds.
        what: The model in words, for the warning.
    """
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    is_gone = model() is None
    if not is_gone:
        warnings.warn(f"{what} is still in memory, beside the next model", RuntimeWarning, stacklevel=2)
    return is_gone
