"""Gradient checkpointing: activations inside a layer are thrown away and computed again for the backward pass."""

from __future__ import annotations

from medtune.models.contract import Model


def recompute_activations(model: Model) -> None:
    """Makes the layers of a transformers model keep nothing but their inputs while training, in place.

    The gradients do not change. Towers of our own are left as they are: most are frozen and keep no activations anyway.

    Source: Chen et al. 2016, arXiv 1604.06174.
    """
    model.of_transformers.gradient_checkpointing_enable({"use_reentrant": False})
