"""The number formats of a model: what it computes in, and what its weights are stored in, also in 4 bits.

Weights that learn are always stored in float32, whatever type their file has, because a step of training is often
smaller than the spacing of 16-bit numbers. Weights that do not learn are stored in the type that the model computes in,
or, in the language model's linear layers, in 4 bits.

Source: Dettmers et al. 2023, QLoRA, arXiv 2305.14314, section 3: NF4 in blocks of 64 with doubly quantised constants.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import nn

if TYPE_CHECKING:
    from peft.tuners.lora import LoraLayer
    from peft.tuners.lora.layer import ParamWrapper
    from peft.tuners.tuners_utils import BaseTunerLayer
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from medtune.models.contract import Model, root_of
from medtune.models.tuning.plan import PartName, Precision

NARROW: dict[Precision, torch.dtype] = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
"""The number formats that the mixed precisions compute in."""
Precise = Callable[[], AbstractContextManager[object]]
"""Returns the context manager under which a model answers."""
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)
"""Layers of torch whose weights are always float32.

They take inputs in either type then. With weights in 16 bits, those on a CPU refuse an input in float32, such as the
output of an embedding that learns. Layers that models define themselves multiply tensors of any types.
"""
_WITHOUT_BFLOAT16 = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"}
"""The limits of instruction sets under which oneDNN multiplies no numbers in bfloat16 but in float32.

Source: oneDNN, developer guide, "CPU Dispatcher Control".
"""
NF4_BYTES = 0.5 + (1 + 4 / 256) / 64
"""Bytes of one weight: 4 bits, a share of one byte per block of 64, and of one float32 per 256 of those bytes."""


def is_adapted(module: nn.Module) -> TypeGuard[BaseTunerLayer]:
    if "peft" not in sys.modules:
        return False
    from peft.tuners.tuners_utils import BaseTunerLayer

    return isinstance(module, BaseTunerLayer)


def is_lora(module: nn.Module) -> TypeGuard[LoraLayer]:
    if "peft" not in sys.modules:
        return False
    from peft.tuners.lora import LoraLayer

    return isinstance(module, LoraLayer)


def adapts_stack(module: nn.Module) -> TypeGuard[ParamWrapper]:
    """Returns whether a module adapts one of the stacks of matrices (`stack_names`) of the module in it."""
    if not is_lora(module):
        return False
    from peft.tuners.lora.layer import ParamWrapper

    return isinstance(module, ParamWrapper)


def adapted_modules(model: nn.Module) -> list[tuple[str, BaseTunerLayer]]:
    """Returns the modules with an adapter and their names, inner ones first: adapters of stacks lie in each other."""
    return [(name, module) for name, module in reversed(list(model.named_modules())) if is_adapted(module)]


def adapted_weight(module: BaseTunerLayer) -> Tensor:
    """Returns the weight that an adapter changes."""
    found: Tensor = module.get_param() if adapts_stack(module) else module.get_base_layer().get_parameter("weight")
    return found


def resolved(wanted: Precision, device: torch.device) -> Precision:
    """Returns the precision for a device; "auto" becomes bf16-mixed where bfloat16 is native there, else 32-true.

    On a CPU it is not native under a limit of oneDNN's below it (`ONEDNN_MAX_CPU_ISA`).
    """
    if wanted == "16-mixed" and device.type == "cpu":
        raise ValueError("train.precision 16-mixed needs a GPU; on a CPU take bf16-mixed or 32-true")
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT_BFLOAT16:
        return "32-true"
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
    """
    types = stored_types(model, precision)
    for name, parameter in model.named_parameters():
        if name in types:
            parameter.data = in_type(name, parameter.data, types[name])
    set_rest(model, precision)


def stored_types(model: nn.Module, precision: Precision) -> dict[str, torch.dtype]:
    """Returns the type in which each parameter of floating-point numbers is stored, by its name."""
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


def linear_names(model: Model, part: PartName, root: str) -> list[str]:
    """Returns the names of the linear layers and 1x1 convolutions (`is_linear`) under a root that belong to its part.

    Left out are the output layer of a language model and layers inside torch's own attention, which uses their weights
    directly, so that an adapter would have no effect.
    """
    roots, modules = model.part_roots, dict(model.named_modules())
    outputs = {id(m.get_output_embeddings()) for m in modules.values() if isinstance(m, PreTrainedModel)}
    return [
        name.removeprefix(f"{root}.")
        for name, module in modules.items()
        if name.startswith(f"{root}.")
        and root_of(name, roots) == (part, root)
        and id(module) not in outputs
        and not isinstance(modules[name.rpartition(".")[0]], nn.MultiheadAttention)
        and is_linear(module)
    ]


def stack_names(model: Model, part: PartName, root: str) -> list[str]:
    """Returns the names of the stacks under a root: parameters with a matrix for each expert, which lie in no layer.

    They are the same before and after the stacks are adapted.
    """
    return [
        f"{name}.{own}".replace(".base_layer", "").removeprefix(f"{root}.")
        for name, module in model.named_modules()
        if name.startswith(f"{root}.")
        and root_of(name, model.part_roots) == (part, root)
        and not type(module).__module__.startswith("torch.")
        for own, parameter in module.named_parameters(recurse=False)
        if is_stack(parameter)
    ]


def is_stack(parameter: Tensor) -> bool:
    # Under ZeRO-3, `shape` is that of the local shard.
    shape = getattr(parameter, "ds_shape", parameter.shape)
    return len(shape) == 3 and min(shape) > 1 and parameter.is_floating_point()


def is_linear(module: nn.Module) -> bool:
    """Returns whether a module multiplies by its weight and does nothing else: a linear layer or a 1x1 convolution.

    A class that has a forward of its own, such as Llama 4's router, may return something else.
    """
    if isinstance(module, nn.Conv2d):
        return module.kernel_size == (1, 1)
    own = type(module).forward is not nn.Linear.forward
    return isinstance(module, nn.Linear) and (not own or is_quantized(module.weight))


def quantize_language(model: Model, *, precision: Precision, device: torch.device) -> None:
    """Replaces the language model's linear layers by 4-bit ones, in place, and moves each of them to the device.

    On the meta device the layers are replaced and their weights keep their shapes, so that they can be counted.
    """
    try:
        import bitsandbytes as bnb
    except ImportError as error:
        raise ValueError("model.language_bits 4 needs bitsandbytes: pip install 'bitsandbytes>=0.49'") from error
    for root in model.part_roots["language"]:
        names = linear_names(model, "language", root)
        for name in names:
            full_name = f"{root}.{name}"
            plain = model.get_submodule(full_name)
            if isinstance(plain, nn.Linear):
                model.set_submodule(full_name, _four_bit(bnb, plain, precision, device))
        if names:
            # peft reads this flag before it adapts a layer as a 4-bit one.
            model.get_submodule(root).is_loaded_in_4bit = True  # type: ignore[assignment]


def _four_bit(bnb: Any, plain: nn.Linear, precision: Precision, device: torch.device) -> nn.Module:
    with torch.device("meta"):
        layer = bnb.nn.Linear4bit(
            plain.in_features,
            plain.out_features,
            bias=plain.bias is not None,
            compute_dtype=NARROW.get(precision, torch.float32),
            quant_type="nf4",
        )
    # From float32, so that a file in another type with the same values gives the same codes.
    weight = bnb.nn.Params4bit(plain.weight.data.float(), requires_grad=False, quant_type="nf4", module=layer)
    layer.weight = weight if weight.is_meta else weight.to(device)
    if layer.weight.quant_state is not None:
        layer.weight.quant_state.dtype = layer.compute_dtype
    if plain.bias is not None:
        layer.bias = plain.bias
    # Otherwise the layer would repack its weights in evaluation mode, for a kernel that gives no gradients and slightly
    # different numbers.
    layer.support_avx512bf16_for_cpu = False
    quantized: nn.Module = layer
    return quantized


def unpacked(layer: Any) -> nn.Linear:
    """Returns a plain layer with the weights in float32 that the codes of a layer in 4 bits stand for."""
    import bitsandbytes as bnb

    plain = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
    weight = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    plain.weight = nn.Parameter(weight.float(), requires_grad=False)
    plain.bias = layer.bias
    return plain


def logical_size(parameter: torch.Tensor) -> int:
    """Returns the number of weights of a parameter: of the whole one under ZeRO-3, and the unpacked ones in 4 bits."""
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        return math.prod(state.shape)
    # Under ZeRO-3, `numel` of a parameter counts only its local shard.
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def is_quantized(parameter: torch.Tensor) -> bool:
    """Returns whether a parameter is held in 4 bits; also true on the meta device."""
    return hasattr(parameter, "quant_type")


def stored_bytes(parameter: torch.Tensor) -> float:
    """Returns the bytes that a parameter takes; of the whole one under ZeRO-3."""
    size = logical_size(parameter)
    return size * NF4_BYTES if is_quantized(parameter) else float(size * parameter.element_size())
