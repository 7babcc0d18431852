"""Reads adapter_config.json of a PEFT folder, and tells which layers it names and with which ranks and scales.

A stranger may have written the file: what peft would take for a regular expression is compared here within a limit of
time, and a value of another form is refused by its name.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medtune.data.files import json_file
from medtune.models.tuning.name_pattern import fits

if TYPE_CHECKING:
    from peft import LoraConfig

CONFIG = "adapter_config.json"
_OWN_MEANING = (
    "layer_replication", "trainable_token_indices", "alora_invocation_tokens", "arrow_config", "megatron_config",
    "monteclora_config",
)  # fmt: skip
"""Settings with which an adapter is more than a change of weights that can be merged, or changes other weights.

Source: peft 0.21.2, `LoraConfig`.
"""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_names(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


_NAMES = (_are_names, "names of modules")
_LIST = (lambda value: isinstance(value, list) and _are_names(value), "a list of names of modules")
_FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "r": (_is_count, "a whole number above 0"),
    "lora_alpha": (_is_number, "a number"),
    **dict.fromkeys(("target_modules", "exclude_modules", "layers_pattern"), _NAMES),
    **dict.fromkeys(("modules_to_save", "target_parameters"), _LIST),
    "rank_pattern": (lambda value: isinstance(value, dict) and all(map(_is_count, value.values())), "ranks by name"),
    "alpha_pattern": (lambda value: isinstance(value, dict) and all(map(_is_number, value.values())), "scales by name"),
    "layers_to_transform": (
        lambda value: all(isinstance(each, int) for each in (value if isinstance(value, list) else [value])),
        "numbers of layers",
    ),
    "base_model_name_or_path": (lambda value: isinstance(value, str), "a name"),
}
"""What the settings of an adapter have to be that are read here."""


def read_settings(folder: Path) -> LoraConfig:
    import peft
    from peft import LoraConfig

    found = json_file(folder / CONFIG, dict, "the settings of an adapter", todo="Copy the adapter again.")
    for field, (is_right, wanted) in _FORMS.items():
        if found.get(field) is not None and not is_right(found[field]):
            raise ValueError(
                f"{folder / CONFIG}: {field} is {found[field]!r:.60}; wanted {wanted}. Copy the adapter again"
            )
    kind = found.get("peft_type")
    if kind != "LORA":
        raise ValueError(
            f"{folder / CONFIG}: peft_type is {kind}; model.adapter takes LORA alone, because only its update can be "
            "merged into the weights of any model"
        )
    if odd := [name for name in _OWN_MEANING if found.get(name)]:
        raise ValueError(
            f"{folder / CONFIG}: {odd[0]} is set; model.adapter takes adapters without it. Merge the adapter "
            "with peft (merge_and_unload), save the model and its processor, "
            "and name that folder as model.weights"
        )
    if found.get("bias", "none") != "none" or found.get("lora_bias"):
        raise ValueError(f"{folder / CONFIG}: biases were trained as well; model.adapter takes adapters without them")
    try:
        config = LoraConfig.from_pretrained(str(folder))
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{folder / CONFIG}: peft {peft.__version__} does not read it: {error}") from error
    assert isinstance(config, LoraConfig)
    return config


def spelled_out(config: LoraConfig, names: Sequence[str], *, where: str) -> LoraConfig:
    """Returns the settings with the names of the layers that they adapt, in place of what peft would search for."""
    adapted = [name for name in names if targets(config, name, where=where)]
    ranks = {name: value_of(config.rank_pattern, name, config.r, where=f"{where}: rank_pattern") for name in adapted}
    scale = config.lora_alpha
    scales = {name: value_of(config.alpha_pattern, name, scale, where=f"{where}: alpha_pattern") for name in adapted}
    return dataclasses.replace(
        config,
        target_modules=adapted,
        exclude_modules=None,
        layers_to_transform=None,
        layers_pattern=None,
        rank_pattern={re.escape(name): rank for name, rank in ranks.items() if rank != config.r},
        alpha_pattern={re.escape(name): value for name, value in scales.items() if value != scale},
    )


def targets(config: LoraConfig, name: str, *, where: str) -> bool:
    """Returns whether an adapter adapts the layer of a name, by rules of its file that may hang or mislead peft.

    Args:
        where: The file of the rules, for errors.

    Source: peft 0.21.2, `check_target_module_exists`.
    """

    def named(rules: str | Collection[str] | None, field: str) -> bool:
        if isinstance(rules, str):
            return fits(rules, name, field=f"{where}: {field}")
        return any(f".{name}".endswith(f".{rule}") for rule in rules or ())

    if named(config.exclude_modules, "exclude_modules"):
        return False
    saved = f"{where}: modules_to_save"
    if any(fits(rf"(?:.*\.)?(?:{rule})(?:\..*)?", name, field=saved) for rule in config.modules_to_save or ()):
        return False
    if not named(config.target_modules, "target_modules"):
        return False
    indices = config.layers_to_transform
    if isinstance(config.target_modules, str) or name in (config.target_modules or ()) or indices in (None, []):
        return True
    layers = config.layers_pattern or r".*\.[^.]*"
    found = (
        _layer_index(layer, name, where=where) for layer in ([layers] if isinstance(layers, str) else sorted(layers))
    )
    index = next((each for each in found if each is not None), None)
    return index is not None and index in ([indices] if isinstance(indices, int) else indices)


def _layer_index(layers: str, name: str, *, where: str) -> int | None:
    """Returns the first number behind the name of a list of layers, which is `layers`; None where there is none."""
    places = name.split(".")
    for place, number in enumerate(places[1:-1], 1):
        if number.isdigit() and fits(
            rf"(?:.*\.)?(?:{layers})", ".".join(places[:place]), field=f"{where}: layers_pattern"
        ):
            return int(number)
    return None


def value_of(patterns: Mapping[str, Any], name: str, otherwise: Any, *, where: str) -> Any:
    """Returns the value of the first pattern that fits a name or its end.

    Source: peft 0.21.2, `get_pattern_key`.
    """
    found = (value for key, value in patterns.items() if fits(rf"(?:.*\.)?(?:{key})", name, field=where))
    return next(found, otherwise)
