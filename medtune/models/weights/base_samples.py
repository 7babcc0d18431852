"""Samples of the weights below an adapter, by which a checkpoint tells whether it is used over the same ones again."""

import json
from collections.abc import Collection, Mapping

from torch import nn

from medtune.models.sharding.unread import is_only_rounded
from medtune.models.tuning.quantize import is_quantized

BASE = "base_samples"
"""The name under which a checkpoint states the samples."""
NUM_SAMPLES = 24
NEAR = 0.02
"""The largest relative difference of two samples of one weight, which may have been rounded to 8 binary digits."""


def base_samples(model: nn.Module, learnt: Collection[str]) -> str:
    """Returns one value of each of several weights that are not trained, as JSON; "" where there are none.

    Args:
        model: The model. Weights that are divided, held in 4 bits, or computed when they are read are left out.
        learnt: Names of the parameters that are trained, which change.
    """
    frozen = [
        (name.replace(".base_layer", ""), parameter)
        for name, parameter in model.named_parameters()
        if name not in learnt and ".lora_" not in name and parameter.numel() and _can_be_sampled(parameter)
    ]
    chosen = frozen[:: max(1, len(frozen) // NUM_SAMPLES)][:NUM_SAMPLES]
    found = {name: f"{float(p.detach().flatten()[p.numel() // 2]):.5g}" for name, p in chosen}
    return json.dumps(found) if found else ""


def _can_be_sampled(parameter: nn.Parameter) -> bool:
    return not is_quantized(parameter) and is_only_rounded(parameter)


def other_base(model: nn.Module, samples: str) -> str | None:
    """Returns the first sampled weight that is another one in the model, in words; None where all are the same.

    Weights that the model does not have, or holds in 4 bits, are passed over.
    """
    recorded: Mapping[str, str] = json.loads(samples)
    for name, parameter in model.named_parameters():
        wanted = recorded.get(name.replace(".base_layer", ""))
        if wanted is None or is_quantized(parameter) or not parameter.numel():
            continue
        found = float(parameter.detach().flatten()[parameter.numel() // 2])
        if abs(found - float(wanted)) > NEAR * max(abs(found), abs(float(wanted))):
            return f"{name} has {found:.5g} where it had {wanted} when the checkpoint was trained"
    return None
