"""Gradient checkpointing, which saves memory by computing the activations inside a layer again in the backward pass."""

from __future__ import annotations

from medtune.models.contract import Model


def recompute_activations(model: Model) -> None:
    """Makes the layers of a transformers model keep only their inputs during training, in place.

    The gradients do not change. medtune's own towers are left as they are, because most are frozen and keep no
    activations anyway.

    Source: Chen et al. 2016, arXiv 1604.06174.
    """
    model.of_transformers.gradient_checkpointing_enable({"use_reentrant": False})
