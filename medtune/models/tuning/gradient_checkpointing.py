"""Gradient checkpointing, which saves memory by computing the activations inside a layer again in the backward pass."""

from medtune.models.contract import Model


def recompute_activations(model: Model) -> None:
    """Makes the layers of a transformers model keep only their inputs during training, in place.

    The gradients do not change. medtune's own towers are left as they are, because most are frozen and keep no
    activations anyway. Frozen towers and layers of transformers keep none either.

    Source: Chen et al. 2016, arXiv 1604.06174.
    """
    language = model.of_transformers
    language.gradient_checkpointing_enable({"use_reentrant": False})
    # transformers lets the outputs of embeddings require gradients, which only reentrant checkpointing needs. A frozen
    # tower would keep the activations of all its layers for a backward pass that nobody wants.
    language.disable_input_require_grads()
