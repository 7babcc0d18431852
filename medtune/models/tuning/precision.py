"""The number format that a model computes in, which is the same before, during and after training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from medtune.models.tuning.plan import Precision

NARROW: dict[Precision, torch.dtype] = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
"""The number formats that the mixed precisions compute in."""
Precise = Callable[[], AbstractContextManager[object]]
"""Returns the context manager under which a model answers."""


def resolved(wanted: Precision, device: torch.device) -> Precision:
    """Returns the precision for a device; "auto" becomes bf16-mixed where bfloat16 is native there, else 32-true.

    Raises:
        ValueError: The recipe asks for 16-mixed on a CPU.
    """
    if wanted == "16-mixed" and device.type == "cpu":
        raise ValueError("train.precision 16-mixed needs a GPU; on a CPU take bf16-mixed or 32-true")
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    capabilities = torch.cpu.get_capabilities()
    return "bf16-mixed" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "32-true"


def precise(precision: Precision, device: torch.device) -> Precise:
    """Returns a function that gives the context manager for a forward pass outside of training.

    Raises:
        ValueError: The precision is still "auto".
    """
    if precision == "auto":
        raise ValueError("the precision 'auto' has to be resolved for the device first")
    if precision == "32-true":
        return nullcontext
    return lambda: torch.autocast(device.type, NARROW[precision])


def narrow_frozen(model: nn.Module, precision: Precision) -> None:
    """Stores parameters that do not learn in 16 bits, in place, under mixed precision; the others stay in float32."""
    if precision not in NARROW:
        return
    narrow = NARROW[precision]
    for parameter in model.parameters():
        if not parameter.requires_grad and parameter.dtype == torch.float32:
            parameter.data = parameter.data.to(narrow)
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            # Under autocast, the adapter's products are in 16 bits anyway, so peft need not convert its inputs to
            # float32.
            module.cast_input_dtype_enabled = False
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.dtype == torch.float32 and name in _STATISTICS:
                setattr(module, name, buffer.to(narrow))


# Batch norm needs its statistics in the type of its weights. Other buffers, such as rotary frequencies, need float32.
_STATISTICS = ("running_mean", "running_var")
