"""Trains the same adapters for one step with plain peft and torch, over the weights that are in memory already.

What should learn is worked out anew from the tuning, with peft's own injection; medtune's code for it is not used.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from medtune.models.contract import Model, parameters_of_parts, root_of
from medtune.models.tuning.adapters import is_target
from medtune.models.tuning.name_pattern import fits
from medtune.models.tuning.plan import Lora, PartName, Tuning
from medtune.models.tuning.quantize import adapted_modules, is_adapted, is_quantized

if TYPE_CHECKING:
    from peft import LoraConfig

_PLAIN = "base_model.model."


class PlainPeft:
    """A plain `PeftModel` over a model of transformers, or over a model in three parts.

    Attributes:
        model: The PeftModel; the model itself where nothing is adapted.
        learning: The parameters that should learn, by the names that they have in medtune's model.
        scales: The scale of each adapter, by the name of its layer.
    """

    def __init__(self, model: nn.Module, prefix: str, learning: dict[str, nn.Parameter]) -> None:
        self.model = model
        self.learning = learning
        self.scales = scales_of(model, strip=_PLAIN, add=prefix)


@contextmanager
def plain_peft(model: Model, tuning: Tuning) -> Iterator[PlainPeft]:
    """Gives the plain PeftModel of a model without adapters; afterwards the model has none again and nothing learns."""
    whole: nn.Module = model.of_transformers
    inside = next(name for name, module in model.named_modules() if module is whole)
    # In a model of three parts, transformers' module is the language model alone, and the other parts may learn too.
    target, prefix = (whole, f"{inside}.") if inside == "whole" else (model, "")
    targets = {
        part: adapted_layers(model, part, tuning) + adapted_parameters(model, part, tuning) for part in tuning.parts()
    }
    parameters = {name.removeprefix(prefix) for name, _ in model.named_parameters()}
    if any(is_quantized(p) for p in target.parameters()):
        target.is_loaded_in_4bit = True  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            # peft reads a field that transformers has renamed, and is told so.
            warnings.simplefilter("ignore", FutureWarning)
            # It uses the patterns of parameters, and says that it does not.
            warnings.filterwarnings("ignore", "The following (rank|alpha)_pattern keys", RuntimeWarning)
            # peft refuses a tuning without adapters, where parts learn in full.
            configs = _configs(tuning, targets, prefix, parameters)
            with names_kept():
                peft_model = _with_peft(target, configs) if configs else target
        learning = {}
        for name, parameter in peft_model.named_parameters():
            mine = prefix + name.removeprefix(_PLAIN)
            learns = "lora_" in mine or _learns_whole(model, mine, tuning)
            parameter.requires_grad_(learns)
            if learns:
                learning[mine] = parameter
        yield PlainPeft(peft_model, prefix, learning)
    finally:
        without_adapters(model)
        model.requires_grad_(False)


def names_kept() -> AbstractContextManager[object]:
    """Makes peft take the names of layers as they are, and not as those of a checkpoint of transformers 4."""
    return patch(
        "peft.utils.transformers_weight_conversion.convert_peft_config_for_transformers", lambda *_, **__: None
    )


def _with_peft(target: nn.Module, configs: Sequence[LoraConfig]) -> nn.Module:
    from peft import get_peft_model, inject_adapter_in_model
    from peft.tuners.tuners_utils import cast_adapter_dtype

    adapted: Any = get_peft_model(target, configs[0])
    # DoRA is one setting for all layers of a configuration, so that parts with and without it have one each.
    for config in configs[1:]:
        # peft would warn of a second adapter.
        vars(target).pop("peft_config", None)
        inject_adapter_in_model(config, target)
        # `get_peft_model` does this by itself.
        cast_adapter_dtype(target, "default")
    whole: nn.Module = adapted
    return whole


def _configs(
    tuning: Tuning, targets: Mapping[PartName, Sequence[str]], prefix: str, parameters: set[str]
) -> list[LoraConfig]:
    names = [(name.removeprefix(prefix), tuning.parts()[part].lora) for part, own in targets.items() for name in own]
    kinds = {lora.dora for _, lora in names}
    return [
        _config([(name, lora) for name, lora in names if lora.dora == dora], dora, parameters) for dora in sorted(kinds)
    ]


def _config(names: Sequence[tuple[str, Lora]], dora: bool, parameters: set[str]) -> LoraConfig:
    from peft import LoraConfig

    return LoraConfig(
        r=1,
        lora_alpha=1,
        use_dora=dora,
        target_modules="|".join(re.escape(name) for name, _ in names if name not in parameters) or [],
        target_parameters=[name for name, _ in names if name in parameters] or None,
        rank_pattern={f"^{re.escape(name)}$": lora.r for name, lora in names},
        # rsLoRA divides by the root of the rank, which an alpha that is larger by that root gives as well.
        alpha_pattern={
            f"^{re.escape(name)}$": lora.alpha * (math.sqrt(lora.r) if lora.rslora else 1) for name, lora in names
        },
    )


def adapted_layers(model: Model, part: PartName, tuning: Tuning) -> list[str]:
    """Returns the full names of the layers of a part that a tuning adapts."""
    how = tuning.parts()[part]
    if how.mode != "lora":
        return []
    modules = dict(model.named_modules())
    outputs = [m.get_output_embeddings() for m in modules.values() if isinstance(m, PreTrainedModel)]
    found = []
    for name, module in modules.items():
        linear = isinstance(module, nn.Linear) and (
            type(module).forward is nn.Linear.forward or is_quantized(module.weight)
        )
        pointwise = isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1)
        inside_attention = isinstance(modules.get(name.rpartition(".")[0]), nn.MultiheadAttention)
        if not (linear or pointwise) or inside_attention or any(module is o for o in outputs):
            continue
        owner, root = root_of(name, model.part_roots)
        local = name.removeprefix(f"{root}.")
        if owner == part and name != root and is_target(how.lora, part, local):
            found.append(name)
    return found


def adapted_parameters(model: Model, part: PartName, tuning: Tuning) -> list[str]:
    """Returns the full names of the parameters of a part that a tuning adapts: those with a matrix for each expert."""
    how = tuning.parts()[part]
    if how.mode != "lora" or how.lora.targets is None:
        return []
    found = []
    for name, parameter in parameters_of_parts(model)[part]:
        owner, root = model.get_submodule(name.rpartition(".")[0]), root_of(name, model.part_roots)[1]
        of_experts = (
            parameter.dim() == 3 and min(parameter.shape) > 1 and not type(owner).__module__.startswith("torch.")
        )
        if of_experts and is_target(how.lora, part, name.removeprefix(f"{root}.")):
            found.append(name)
    return found


def _learns_whole(model: Model, name: str, tuning: Tuning) -> bool:
    part, root = root_of(name, model.part_roots)
    how = tuning.parts()[part]
    if how.mode == "full":
        return True
    if how.mode == "frozen" or how.parameters is None:
        return False
    inside = name.removeprefix(root).removeprefix(".").replace(".base_layer", "")
    local = inside if "." in inside else f"{root.rpartition('.')[2]}.{inside}".rstrip(".")
    return fits(how.parameters, local, field=f"model.tuning.{part}.parameters")


def without_adapters(model: nn.Module) -> None:
    """Takes the adapters out of a model, in place; the layers below them stay as they are."""
    for name, module in adapted_modules(model):
        model.set_submodule(name, module.get_base_layer())
    for module in model.modules():
        if hasattr(module, "peft_config"):
            # peft would warn of a second adapter.
            del module.peft_config


def scales_of(model: nn.Module, *, strip: str = "", add: str = "") -> dict[str, float]:
    """Returns the scale of each adapter by the name of its layer."""
    found: dict[str, float] = {}
    for name, module in model.named_modules():
        scaling: Any = getattr(module, "scaling", None)
        if is_adapted(module) and isinstance(scaling, dict):
            found[add + name.removeprefix(strip)] = float(scaling["default"])
    return found


def plain_step(learning: Mapping[str, nn.Parameter], model: Model, tuning: Tuning, *, weight_decay: float) -> None:
    """Makes one step of torch's AdamW with each part's rate; matrices decay, vectors do not."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in learning.items():
        part, _ = root_of(name, model.part_roots)
        how = tuning.parts()[part]
        faster = how.mode == "lora" and (".lora_B." in name or ".lora_magnitude_vector." in name)
        decay = weight_decay if parameter.dim() > 1 and ".lora_magnitude_vector." not in name else 0.0
        groups.setdefault((how.lr * (how.lora.lr_ratio if faster else 1.0), decay), []).append(parameter)
    torch.optim.AdamW(
        [{"params": own, "lr": lr, "weight_decay": decay} for (lr, decay), own in groups.items()], foreach=False
    ).step()
