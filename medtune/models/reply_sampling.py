"""Draws replies at a temperature: greedily, from logits with noise.

The index of the largest value of logits / temperature + Gumbel noise is an exact draw from
softmax(logits / temperature). A reply depends only on its own seed: neither the other replies that are drawn together
with it nor an interruption of the evaluation change it. Where a model's own loop generates the plain rows, `drawn` adds
the noise behind its output layer.

Shape legend: B rows, V vocabulary.

Source: Maddison, Tarlow and Minka, A* Sampling, arXiv 1411.0030, section 2 (the Gumbel-max trick).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

CHANGED_BEHIND = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Settings of transformers' models that change the logits after the output layer."""


def changes_behind(language: PreTrainedModel) -> dict[str, float]:
    """Returns the settings by which a language model changes its logits after the output layer, with their values."""
    config = language.config.get_text_config()
    found = {name: getattr(config, name, None) for name in CHANGED_BEHIND}
    return {name: float(value) for name, value in found.items() if value not in (None, 1, 1.0)}


def changed(logits_TV: Tensor, changes: dict[str, float]) -> Tensor:
    """Returns the logits as the model's own forward gives them.

    Source: transformers, `forward` of Gemma2ForCausalLM, CohereForCausalLM and GraniteForCausalLM.
    """
    if (scale := changes.get("logit_scale")) is not None:
        logits_TV = logits_TV * scale
    if (divisor := changes.get("logits_scaling")) is not None:
        logits_TV = logits_TV / divisor
    if (cap := changes.get("final_logit_softcapping")) is not None:
        logits_TV = torch.tanh(logits_TV / cap) * cap
    return logits_TV


@contextmanager
def drawn(model: nn.Module, *, temperature: float, seeds: Sequence[int]) -> Iterator[None]:
    """Makes the model draw the tokens that it generates inside the context.

    Args:
        model: The model, which contains a language model of transformers. It chooses greedily again when the context
            ends.
        temperature: Temperature of the sampling, above 0; 1 draws from the model's own distribution.
        seeds: One seed for each row of the batch, in the order of the rows; the same seed draws the same noise.
    """
    if temperature <= 0:
        raise ValueError(f"the temperature is {temperature}; it must be above 0, and 0 is the greedy choice")
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def noisy(layer: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> Tensor:
        if logits.shape[0] != len(generators):
            raise ValueError(f"{len(generators)} seeds for a batch of {logits.shape[0]} rows")
        noise_BV = torch.stack([gumbel(logits.shape[-1], generator) for generator in generators])
        spread = noise_BV.view(len(generators), *[1] * (logits.dim() - 2), -1)
        return logits.float() / temperature + spread.to(logits.device)

    hook = drawable(model).register_forward_hook(noisy)
    try:
        yield
    finally:
        hook.remove()


def gumbel(size: int, generator: torch.Generator) -> Tensor:
    """Returns standard Gumbel noise, drawn on the CPU so that it is the same for every device."""
    return -torch.empty(size).exponential_(generator=generator).log()


def drawable(model: nn.Module) -> nn.Module:
    """Returns the output layer from whose logits replies can be drawn."""
    for part in model.modules():
        layer: nn.Module | None = part.get_output_embeddings() if isinstance(part, PreTrainedModel) else None
        if isinstance(part, PreTrainedModel) and layer is not None:
            if odd := changes_behind(part):
                raise ValueError(
                    f"the language model changes its logits by {next(iter(odd))} after its output layer, and replies "
                    "cannot be drawn from it; set eval.temperature=0"
                )
            return layer
    raise ValueError("the model has no language model of transformers to draw from; set eval.temperature=0")
