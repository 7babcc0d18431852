"""Holds the language model's linear layers in 4 bits; tower, projector, embeddings and output layer stay as they are.

Source: Dettmers et al. 2023, QLoRA, arXiv 2305.14314, section 3: NF4 in blocks of 64 with doubly quantised constants.
"""

import math
from typing import Any

import torch
from torch import nn

from medtune.models.contract import Model, root_of
from medtune.models.tuning.linear_layers import linear_names
from medtune.models.tuning.plan import PartName, Precision
from medtune.models.tuning.precision import NARROW

NF4_BYTES = 0.5 + (1 + 4 / 256) / 64
"""Bytes of one weight: 4 bits, a share of one byte per block of 64, and of one float32 per 256 of those bytes."""


def quantize_language(model: Model, *, precision: Precision, device: torch.device) -> None:
    """Replaces the language model's linear layers by 4-bit ones, in place, and moves each of them to the device.

    On the meta device the layers are replaced and their weights keep their shapes, so that they can be counted.

    Args:
        model: The model, without adapters.
        precision: The number format that the layers compute in.
        device: The device that the model will run on.
    """
    try:
        import bitsandbytes as bnb
    except ImportError as error:
        raise ValueError("model.language_bits 4 needs bitsandbytes: pip install 'medtune[bitsandbytes]'") from error
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


def quantized_size(model: Model, part: PartName) -> int:
    """Returns the number of weights of a part that are held in 4 bits."""
    named = model.named_parameters()
    return sum(logical_size(p) for name, p in named if is_quantized(p) and root_of(name, model.part_roots)[0] == part)
