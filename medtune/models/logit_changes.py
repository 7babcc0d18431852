"""The ways in which language models of transformers change their logits behind the output layer."""

import torch
from torch import Tensor
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
