"""The number formats of a model: what it computes in, and what its weights are stored in.

Weights that learn are always stored in float32, whatever type their file has, because a step of training is often
smaller than the spacing of 16-bit numbers. Weights that do not learn are stored in the type that the model computes in.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from medtune.models.tuning.adapted_layers import is_adapted
from medtune.models.tuning.plan import Precision

NARROW: dict[Precision, torch.dtype] = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
"""The number formats that the mixed precisions compute in."""
Precise = Callable[[], AbstractContextManager[object]]
"""Returns the context manager under which a model answers."""
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)
"""Layers of torch whose weights are always float32.

They take inputs in either type then. With weights in 16 bits, those on a CPU refuse an input in float32, such as the
output of an embedding that learns. Layers that models define themselves multiply tensors of any types.
"""


def resolved(wanted: Precision, device: torch.device) -> Precision:
    """Returns the precision for a device; "auto" becomes bf16-mixed where bfloat16 is native there, else 32-true."""
    if wanted == "16-mixed" and device.type == "cpu":
        raise ValueError("train.precision 16-mixed needs a GPU; on a CPU take bf16-mixed or 32-true")
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    capabilities = torch.cpu.get_capabilities()
    return "bf16-mixed" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "32-true"


def precise(precision: Precision, device: torch.device) -> Precise:
    """Returns a function that gives the context manager for a forward pass outside of training."""
    computed = frozen_type(precision)
    if computed == torch.float32:
        return nullcontext
    return lambda: torch.autocast(device.type, computed)


def frozen_type(precision: Precision) -> torch.dtype:
    """Returns the type that a model computes in, in which the weights that do not learn are stored."""
    if precision == "auto":
        raise ValueError("the precision 'auto' has to be resolved for the device first")
    return NARROW.get(precision, torch.float32)


def set_types(model: nn.Module, precision: Precision) -> None:
    """Stores parameters that learn in float32 and all others in the type of the precision, in place and one by one.

    Norms and buffers, which are small, are always float32. Weights in 4 bits stay as they are.

    Args:
        model: The model; its adapters are there, and `requires_grad` says which parameters learn in any stage.
        precision: The precision that the model computes in.
    """
    types = stored_types(model, precision)
    for name, parameter in model.named_parameters():
        if name in types:
            parameter.data = in_type(name, parameter.data, types[name])
    set_rest(model, precision)


def stored_types(model: nn.Module, precision: Precision) -> dict[str, torch.dtype]:
    """Returns the type in which each parameter of floating-point numbers is stored, by its name.

    Args:
        model: The model, as `set_types` takes it.
        precision: The precision that the model computes in.
    """
    frozen = frozen_type(precision)
    norms = {id(p) for module in model.modules() if isinstance(module, _NORMS) for p in module.parameters()}
    return {
        name: torch.float32 if parameter.requires_grad or id(parameter) in norms else frozen
        for name, parameter in model.named_parameters()
        if parameter.is_floating_point()
    }


def set_rest(model: nn.Module, precision: Precision) -> None:
    """Stores buffers in float32, and lets adapters take the inputs that the precision gives them."""
    frozen = frozen_type(precision)
    for module in model.modules():
        if is_adapted(module):
            # Under autocast, the adapter's products are in 16 bits anyway, so peft need not convert its inputs to
            # float32.
            module.cast_input_dtype_enabled = frozen == torch.float32
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                setattr(module, name, buffer.float())


def widen_learning(model: nn.Module) -> None:
    """Stores the parameters that require gradients in float32, in place."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


@contextmanager
def float32_adapters(layers: Iterable[nn.Module]) -> Iterator[None]:
    """Makes peft create the adapters of these layers in float32 while the context lasts.

    peft draws an adapter in float32 and then gives it the type of its layer's weight, or the layer's `compute_dtype`
    where the layer has one. Converting an adapter to float32 afterwards would not bring back the digits that are lost.
    """
    stated: list[tuple[Any, torch.dtype | None]] = [(each, getattr(each, "compute_dtype", None)) for each in layers]
    for layer, _ in stated:
        layer.compute_dtype = torch.float32
    try:
        yield
    finally:
        for layer, dtype in stated:
            if dtype is None:
                del layer.compute_dtype
            else:
                layer.compute_dtype = dtype


def in_type(name: str, values: Tensor, wanted: torch.dtype) -> Tensor:
    """Returns the values of a parameter in the type that it is stored in."""
    converted = values.to(wanted)
    if wanted == torch.float16 and values.dtype != wanted and not (values.is_meta or bool(converted.isfinite().all())):
        raise ValueError(
            f"{name} holds values that float16 cannot, which train.precision 16-mixed computes in; set "
            "train.precision=bf16-mixed or 32-true"
        )
    return converted
