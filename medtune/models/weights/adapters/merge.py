"""Merges the adapter of a layer into the weights that it adapts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from peft.tuners.tuners_utils import BaseTunerLayer


def merged_layer(layer: BaseTunerLayer, dtype: torch.dtype | None = None) -> nn.Module:
    """Returns the layer that an adapter adapts, with the adapter merged into its weights.

    The sum is computed in float32 and rounded once to the type of the weights. In 16 bits the product of the adapter's
    two matrices would be rounded as well.

    Args:
        layer: The adapted layer.
        dtype: The type of the merged weights; None keeps that of the layer's own weights.
    """
    adapted: Any = layer
    base: nn.Module = adapted.get_base_layer()
    dtypes = {name: p.dtype for name, p in base.named_parameters()}
    adapted.float()
    adapted.merge(safe_merge=True)
    for name, parameter in base.named_parameters():
        parameter.data = parameter.data.to(dtype or dtypes[name])
    return base
