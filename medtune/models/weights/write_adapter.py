"""Writes what a run has trained as a folder in PEFT's own format, which plain `PeftModel.from_pretrained` reads.

The folder holds:

- adapter_config.json: the ranks, scales and layers of the adapters, and the names of the modules trained in full;
- adapter_model.safetensors: the trained weights, under PEFT's names;
- tower_projector.safetensors: what was trained outside of the language model, where medtune puts a model together
  from a tower, a projector and a language model; PEFT does not read this file;
- medtune_adapter.json: facts about the run, such as the data that it was trained on;
- README.md: how to load the folder, or why there is no adapter in it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.conversion_mapping import get_model_conversion_mapping

from medtune.data.files import give_usual_permissions, json_file, text_fields
from medtune.models.contract import Model
from medtune.models.tuning.quantize import adapted_weight, adapts_stack, is_lora, is_quantized, unpacked
from medtune.models.tuning.starting_weights import NO_STARTS, Starts

if TYPE_CHECKING:
    from peft import LoraConfig
    from peft.tuners.lora import LoraLayer
import torch

if TYPE_CHECKING:
    from peft.tuners.tuners_utils import BaseTunerLayer


WEIGHTS = "adapter_model.safetensors"
PARTS_FILE = "tower_projector.safetensors"
README = "README.md"
ABOUT = "medtune_adapter.json"
_NAME = "default"
PREFIX = "base_model.model."
"""Text in front of the names of all tensors of an adapter file.

Source: peft 0.21.2, `get_peft_model_state_dict`.
"""


class NoPeftFolderError(ValueError):
    """PEFT's format cannot express what a run has trained; the message says why."""


@dataclass(frozen=True, slots=True)
class Base:
    """The model that an adapter belongs to."""

    name: str  # Hub id or folder of the pretrained weights, or the name of a model that medtune builds itself.
    revision: str | None = None  # Branch, tag or commit on the hub; None for the newest.
    adapter: str | None = None  # Adapter that was merged into these weights before the training; None for none.
    is_plain: bool = True  # Whether plain transformers reads the folder; False where it is in its authors' own layout.


@dataclass(frozen=True, slots=True)
class PeftAdapter:
    config: LoraConfig  # The ranks, scales and layers of the adapters, and the modules that were trained in full.
    tensors: dict[str, Tensor]  # The trained weights under PEFT's names.
    # Weights of the tower and the projector, under medtune's names, where only the language model is a model of
    # transformers.
    outside: dict[str, Tensor]


def write_adapter(
    folder: Path,
    model: Model,
    trained: Mapping[str, Tensor],
    base: Base,
    *,
    about: Mapping[str, str],
    starts: Starts = NO_STARTS,
) -> None:
    """Writes the adapter under a temporary name and renames it at the end, so that nobody reads half a folder.

    Where PEFT's format cannot express what was trained, the folder holds only a README that says why.

    Args:
        model: The model with its adapters. Only its structure is read, not its weights.
        trained: The trained weights by their names in the model, whole.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        write_peft_files(unfinished, peft_adapter(model, trained, base, starts), about=about)
    except NoPeftFolderError as reason:
        (unfinished / README).write_text(_absent(str(reason)), "utf-8")
    else:
        (unfinished / README).write_text(usage(base, unfinished), "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def write_absence(folder: Path, reason: str) -> None:
    """Writes a folder with nothing but a README that says why PEFT's format cannot express what was trained."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / README).write_text(_absent(reason), "utf-8")


def write_peft_files(folder: Path, adapter: PeftAdapter, *, about: Mapping[str, str]) -> None:
    """Writes the files of an adapter and the facts about the run into a folder."""
    # peft keeps the layers as a set, whose order differs from process to process.
    config = copy(adapter.config)
    config.target_modules = sorted(config.target_modules or ())
    config.save_pretrained(str(folder))
    for path, tensors in ((folder / WEIGHTS, adapter.tensors), (folder / PARTS_FILE, adapter.outside)):
        if tensors:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
    (folder / ABOUT).write_text(json.dumps(dict(about), indent=1) + "\n", "utf-8")
    give_usual_permissions(folder)


def read_about_adapter(folder: Path) -> dict[str, str]:
    """Returns the facts that `write_adapter` was given; an empty dictionary for folders of other tools."""
    path = folder / ABOUT
    if not path.is_file():
        return {}
    todo = "Copy the adapter's folder again."
    return text_fields(path, json_file(path, dict, "the facts of an adapter", todo=todo), todo=todo)


def peft_adapter(model: Model, trained: Mapping[str, Tensor], base: Base, starts: Starts = NO_STARTS) -> PeftAdapter:
    """Returns what was trained as PEFT has it."""
    if base.adapter is not None:
        raise NoPeftFolderError(
            f"the run began from the adapter {base.adapter} (model.adapter), which was merged into the base model "
            "first, so that an adapter on the base model alone would be another model"
        )
    if starts:
        raise NoPeftFolderError(
            "the adapters began with PiSSA, which also changes the weights that they adapt, so that they do not fit "
            "the base model as it is published"
        )
    root = next(name for name, module in model.named_modules() if module is model.of_transformers)
    outside = {name: tensor for name, tensor in trained.items() if not name.startswith(f"{root}.")}
    if adapters := sorted(name for name in outside if ".lora_" in name):
        raise NoPeftFolderError(
            f"{adapters[0]} is an adapter outside of the language model, which alone is a model of transformers here"
        )
    whole = model.of_transformers
    local = {name.removeprefix(f"{root}."): tensor for name, tensor in trained.items() if name not in outside}
    adapted = {name: module for name, module in whole.named_modules() if is_lora(module) and _has_adapter(name, local)}
    full = [name for name in local if not _of_adapter(name, adapted)]
    if both := [name for name in full if ".base_layer." in name]:
        raise NoPeftFolderError(f"{both[0]} was trained in full although it has an adapter as well")
    saved = _modules_to_save(whole, full)
    config = _config(adapted, base)
    _refuse_renamed(config, whole)
    config.modules_to_save = saved or None
    return PeftAdapter(config, {**_lora_tensors(local, adapted), **_saved_tensors(whole, saved, local)}, outside)


def _refuse_renamed(config: LoraConfig, whole: nn.Module) -> None:
    from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers

    read = deepcopy(config)
    convert_peft_config_for_transformers(read, whole, get_model_conversion_mapping(whole))  # type: ignore[arg-type]
    wanted, found = ({*(each.target_modules or ()), *(each.target_parameters or ())} for each in (config, read))
    if renamed := sorted(wanted ^ found):
        raise NoPeftFolderError(
            f"peft takes the names of its layers for those of an older transformers and adapts others ({renamed[0]})"
        )


def _has_adapter(name: str, local: Mapping[str, Tensor]) -> bool:
    return f"{name}.lora_A.{_NAME}.weight" in local


def _of_adapter(name: str, adapted: Mapping[str, LoraLayer]) -> bool:
    return ".lora_" in name and name.partition(".lora_")[0] in adapted


def _lora_tensors(local: Mapping[str, Tensor], adapted: Mapping[str, LoraLayer]) -> dict[str, Tensor]:
    found = {}
    for name, tensor in local.items():
        if _of_adapter(name, adapted):
            short = name.replace(f"lora_magnitude_vector.{_NAME}.weight", "lora_magnitude_vector")
            found[PREFIX + short.replace(f".{_NAME}.", ".")] = tensor
    return found


def _config(adapted: Mapping[str, LoraLayer], base: Base) -> LoraConfig:
    if not adapted:
        raise NoPeftFolderError("the run trained no LoRA adapter")
    from peft import LoraConfig

    if len(dora := {bool(layer.use_dora.get(_NAME)) for layer in adapted.values()}) > 1:
        raise NoPeftFolderError("some layers have DoRA and some have not; PEFT has one setting for all layers")
    names = {_target(name, layer): layer for name, layer in adapted.items()}
    ranks = {name: int(layer.r[_NAME]) for name, layer in names.items()}
    # Scales of layers with and without rsLoRA differ in their formula. An alpha of scale * r gives each of them.
    alphas = {name: float(layer.scaling[_NAME]) * ranks[name] for name, layer in names.items()}
    rank, alpha = _most_frequent(ranks.values()), _most_frequent(alphas.values())
    return LoraConfig(
        r=int(rank),
        lora_alpha=_int_if_whole(alpha),
        target_modules=sorted(name for name, layer in names.items() if not adapts_stack(layer)),
        target_parameters=sorted(name for name, layer in names.items() if adapts_stack(layer)) or None,
        rank_pattern={_exactly(name): r for name, r in ranks.items() if r != rank},
        alpha_pattern={_exactly(name): _int_if_whole(a) for name, a in alphas.items() if a != alpha},
        use_dora=dora.pop(),
        bias="none",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base.name,
        revision=base.revision,
        inference_mode=True,
    )


def _target(name: str, layer: LoraLayer) -> str:
    return f"{name.replace('.base_layer', '')}.{layer.parameter_name}" if adapts_stack(layer) else name


def _most_frequent(values: Any) -> float:
    counted: Counter[float] = Counter(values)
    return counted.most_common(1)[0][0]


def _int_if_whole(alpha: float) -> Any:
    # peft's type is int, but it multiplies by any number; vLLM reads both.
    return int(alpha) if alpha == int(alpha) else alpha


def _exactly(name: str) -> str:
    # peft takes the keys of patterns as regular expressions for the end of a name.
    return re.escape(name)


def _modules_to_save(whole: nn.Module, full: list[str]) -> list[str]:
    trained = set(full)
    shared: dict[int, list[str]] = {}
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        shared.setdefault(id(parameter), []).append(name)
    trained |= {name for names in shared.values() if trained & set(names) for name in names}
    chosen: list[str] = []
    for name in sorted(trained):
        if not any(name.startswith(f"{module}.") for module in chosen):
            chosen.append(_owner(whole, name, trained))
    return sorted(each for each in chosen if not any(each.startswith(f"{other}.") for other in chosen))


def _owner(whole: nn.Module, name: str, trained: set[str]) -> str:
    owner = name.rpartition(".")[0]
    found = None
    while owner:
        module = whole.get_submodule(owner)
        if any(f"{owner}.{each}" not in trained for each, _ in module.named_parameters()):
            break
        if not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.ParameterList | nn.ParameterDict):
            found = owner
        owner = owner.rpartition(".")[0]
    if found is None:
        raise NoPeftFolderError(
            f"{name} was trained in full, but the module that holds it also holds weights that were not; PEFT can "
            "only copy whole modules"
        )
    return found


def _saved_tensors(whole: nn.Module, saved: list[str], local: Mapping[str, Tensor]) -> dict[str, Tensor]:
    by_id = {id(p): local[name] for name, p in whole.named_parameters() if name in local}
    found: dict[str, Tensor] = {}
    for owner in saved:
        module = whole.get_submodule(owner)
        state = module.state_dict(keep_vars=True)
        for name, tensor in state.items():
            value = by_id.get(id(tensor), tensor)
            # Tied weights are written once for each module, because PEFT copies each of them.
            found[f"{PREFIX}{owner}.{name}"] = value.detach().clone()
    return found


def usage(base: Base, folder: Path) -> str:
    """Returns the text for people who find the folder: what is in it, and how to load it."""
    lines = [
        "# Adapter",
        "",
        "What medtune has trained, in PEFT's format: LoRA adapters, and whole copies of the modules that were trained "
        "in full (`modules_to_save` in adapter_config.json, for instance the projector).",
        "",
    ]
    if (folder / PARTS_FILE).is_file():
        lines += [
            f"The adapters are those of the language model alone. The tower and the projector are in {PARTS_FILE}, "
            "which PEFT does not read: only medtune can put the model together, with `model.adapter: THIS_FOLDER`.",
            "",
        ]
    elif not base.is_plain:
        lines += [
            f"The base model {base.name} is in its authors' own layout, which transformers does not read. medtune puts "
            "both together with `model.adapter: THIS_FOLDER`. For PEFT, take the same weights in transformers' own "
            "format (an -hf repository), whose layers have the names that stand here, or take the merged export.",
            "",
        ]
    else:
        revision = "" if base.revision is None else f', revision="{base.revision}"'
        lines += [
            "    from peft import PeftModel",
            "    from transformers import AutoModelForMultimodalLM",
            "",
            f'    base = AutoModelForMultimodalLM.from_pretrained("{base.name}"{revision})',
            '    model = PeftModel.from_pretrained(base, "THIS_FOLDER")',
            "",
            "medtune reads the folder with `model.adapter: THIS_FOLDER`.",
            "",
        ]
    return "\n".join(lines)


def _absent(reason: str) -> str:
    return (
        f"# No adapter\n\nPEFT's format cannot express this training: {reason}. `medtune export RUN --out DIR` writes "
        "the whole model.\n"
    )


def merged_layer(layer: BaseTunerLayer, dtype: torch.dtype | None = None) -> nn.Module:
    """Returns the layer that an adapter adapts, with the adapter merged into its weights.

    The sum is computed in float32 and rounded once to the type of the weights. In 16 bits the product of the adapter's
    two matrices would be rounded as well. A layer in 4 bits becomes a plain one, with the weights in float32 that its
    codes stand for and the adapter merged into them; what it adapts stays as it is. Where adapters of two stacks lie in
    each other, the inner one has to be merged first.
    """
    adapted: Any = layer if not is_quantized(adapted_weight(layer)) else _over_plain(layer)
    base: nn.Module = adapted.get_base_layer()
    dtypes = {name: p.dtype for name, p in base.named_parameters()}
    adapted.float()
    adapted.merge(safe_merge=True)
    for name, parameter in base.named_parameters():
        parameter.data = parameter.data.to(dtype or dtypes[name])
    return base


def _over_plain(layer: Any) -> Any:
    from peft import LoraConfig
    from peft.tuners.lora import Linear

    rank, alpha = layer.r[_NAME], layer.lora_alpha[_NAME]
    config = LoraConfig(use_dora=layer.use_dora[_NAME])
    plain = Linear(unpacked(layer.get_base_layer()), _NAME, config, r=rank, lora_alpha=alpha)
    plain.scaling[_NAME] = layer.scaling[_NAME]
    own = layer.state_dict()
    plain.load_state_dict({name: own[name] for name in own if f".{_NAME}." in name}, strict=False)
    return plain
