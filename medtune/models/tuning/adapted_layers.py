"""Says which layers have adapters, without importing peft for a model that has none.

peft imports bitsandbytes where that is installed, and bitsandbytes imports PyTorch's compiler: a second of CPU time,
which a run without adapters need not spend. Only peft puts an adapter into a layer, so where it is not imported, there
is none.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import nn

if TYPE_CHECKING:
    from peft.tuners.lora import LoraLayer
    from peft.tuners.tuners_utils import BaseTunerLayer


def is_adapted(module: nn.Module) -> TypeGuard[BaseTunerLayer]:
    """Returns whether a module is a layer with an adapter of any kind."""
    if "peft" not in sys.modules:
        return False
    from peft.tuners.tuners_utils import BaseTunerLayer

    return isinstance(module, BaseTunerLayer)


def is_lora(module: nn.Module) -> TypeGuard[LoraLayer]:
    """Returns whether a module is a layer with a LoRA adapter."""
    if "peft" not in sys.modules:
        return False
    from peft.tuners.lora import LoraLayer

    return isinstance(module, LoraLayer)
