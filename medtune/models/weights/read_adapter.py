"""Merges a LoRA adapter in PEFT's format into the model that it was trained on; every tensor of it has to be used.

Training then goes on with new adapters, as `model.tuning` says. The merged weights take their place among the
pretrained ones: they can be held in 4 bits, sharded and exported like these.

Tensors of adapters that older versions of transformers wrote get the names that the model has today.

Source: transformers 5.23.0, conversion_mapping.py, which renames a checkpoint's tensors when it is loaded; peft renames
an adapter's tensors for some of these models only.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from torch import Tensor, nn
from transformers import PreTrainedModel

from medtune.models.contract import Assembled, Model, root_of
from medtune.models.tuning.quantize import adapted_modules
from medtune.models.weights.adapter_settings import CONFIG, read_settings, targets, value_of
from medtune.models.weights.assets import AssetError
from medtune.models.weights.folder_check import whole_tensors
from medtune.models.weights.write_adapter import ABOUT, PARTS_FILE, PREFIX, WEIGHTS, merged_layer

if TYPE_CHECKING:
    from peft import LoraConfig


_OLD_STARTS = (
    ("language_model.model.", "model.language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("language_model.", "model.language_model."),
    ("vision_tower.", "model.vision_tower."),
    ("vision_model.", "model.vision_model."),
    ("multi_modal_projector.", "model.multi_modal_projector."),
    ("visual.", "model.visual."),
    ("model.vision_tower.vision_model.", "model.vision_tower."),
    ("vision_tower.vision_model.", "model.vision_tower."),
    ("model.", "model.language_model."),
)
"""Beginnings of names before transformers 4.52 and before 5, and what they are now."""
_BEHIND = re.compile(r"\.(lora_(A|B|embedding_A|embedding_B|magnitude_vector)|weight|bias)\b")

CHANGES_BASE = ("pissa", "olora")
"""Ways to begin an adapter that also change the weights that it adapts.

Source: peft 0.21.2, `LoraConfig.init_lora_weights`.
"""
_BINARY = "adapter_model.bin"
_FIRST_HALF, _SECOND_HALF = (".lora_A.weight", ".lora_embedding_A"), (".lora_B.weight", ".lora_embedding_B")


def present_name(whole: PreTrainedModel, name: str) -> str:
    """Returns the name that a tensor of an adapter has today; a name that fits no layer stays as it is."""
    plain = name.replace(".modules_to_save.", ".") if ".modules_to_save." in name else name
    local = plain.removeprefix(PREFIX)
    for candidate in _candidates(local):
        if _is_there(whole, candidate):
            return PREFIX + candidate
    return PREFIX + local


def _candidates(local: str) -> Iterator[str]:
    yield local
    for old, new in _OLD_STARTS:
        if local.startswith(old):
            yield new + local.removeprefix(old)


def _is_there(whole: PreTrainedModel, local: str) -> bool:
    owner = _BEHIND.split(local)[0].replace(".base_layer", "")
    try:
        whole.get_submodule(owner)
    except AttributeError:
        # A parameter that belongs to a module directly, such as Gemma's projection.
        module, _, parameter = local.rpartition(".")
        return any(name == parameter for name, _ in _direct(whole, module))
    return True


def _direct(whole: PreTrainedModel, name: str) -> Iterator[tuple[str, object]]:
    try:
        yield from whole.get_submodule(name).named_parameters(recurse=False)
    except AttributeError:
        return


def merge_adapter(assembled: Assembled, where: str, *, base: str) -> Assembled:
    """Merges an adapter into the model's weights, in place, and returns the model with its origin written down.

    Args:
        base: Hub id or folder of the pretrained weights, with which the adapter's own record is compared.
    """
    folder = adapter_folder(where)
    config = read_settings(folder)
    whole = assembled.model.of_transformers
    tensors = {present_name(whole, name): t for name, t in _read_tensors(folder).items()}
    tensors = dict(_of_adapter(tensors, whole, folder))
    dtypes = {name: p.dtype for name, p in whole.named_parameters()}
    explicit = _explicit(config, tensors, whole, folder)
    _merge(whole, explicit, tensors, folder)
    _restore_types(whole, dtypes)
    outside = _copy_outside(assembled.model, folder / PARTS_FILE)
    named = config.base_model_name_or_path
    doubt = "" if _same(named, base) else f" (it was trained on {named})"
    if doubt:
        warnings.warn(
            f"model.adapter {where} says that it was trained on {named}; the model here is {base}. The names and "
            "shapes fit, but make sure that these are the same weights",
            stacklevel=2,
        )
    names = [*(f"{_root(assembled.model)}.{_layer(name)}" for name in tensors), *outside]
    touched = {root_of(name, assembled.model.part_roots)[0] for name in names}
    text = f"; the adapter {where} merged in{doubt}"
    return replace(
        assembled, provenance={p: origin + (text if p in touched else "") for p, origin in assembled.provenance.items()}
    )


def _of_adapter(tensors: Mapping[str, Tensor], whole: PreTrainedModel, folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields all but the table of embeddings, which PEFT writes beside an adapter of it; it has to be the model's."""
    own = dict(whole.named_parameters())
    for name, tensor in tensors.items():
        if ".base_layer." not in name or ".lora_" in name:
            yield name, tensor
            continue
        mine = own.get(name.removeprefix(PREFIX).replace(".base_layer.", "."))
        if mine is None or mine.shape != tensor.shape or not torch.equal(mine.cpu(), tensor.to(mine.dtype)):
            raise ValueError(
                f"{folder}: {name} is another table than the model's, for instance one with rows for new tokens. Merge "
                "the adapter with peft (merge_and_unload), save the model and its processor, and name that folder as "
                "model.weights"
            )


def check_adapter(where: str) -> None:
    """Refuses an adapter of a kind that is not taken, before anything large is read."""
    folder = adapter_folder(where)
    read_settings(folder)
    _weights_file(folder)


def adapter_folder(where: str) -> Path:
    """Returns the local folder of an adapter, which the hub is asked for if there is no such folder."""
    folder = Path(where)
    if not folder.is_dir():
        try:
            folder = Path(snapshot_download(where, allow_patterns=["adapter_*", ABOUT, PARTS_FILE]))
        except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise AssetError(
                f"{where} (model.adapter): no such folder, and the hub did not give it: {reason}"
            ) from error
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{where} (model.adapter): no {CONFIG} there; it has to be a folder in PEFT's format")
    return folder


def adapter_digest(where: str) -> str:
    """Returns the hash of an adapter's files, by which a run recognises the adapter that it began from."""
    folder = adapter_folder(where)
    digest = hashlib.sha256()
    for path in (folder / CONFIG, _weights_file(folder), folder / PARTS_FILE):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _weights_file(folder: Path) -> Path:
    for path in (folder / WEIGHTS, folder / _BINARY):
        if path.is_file():
            return path
    raise ValueError(f"{folder}: no {WEIGHTS} beside {CONFIG}; copy the adapter again")


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    path = _weights_file(folder)
    try:
        if path.name == _BINARY:
            return dict(torch.load(path, map_location="cpu", weights_only=True))
        return whole_tensors(path)
    except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no table of tensors alone; copy the adapter again ({error})") from error


def _explicit(config: LoraConfig, tensors: Mapping[str, Tensor], whole: PreTrainedModel, folder: Path) -> LoraConfig:
    from peft import LoraConfig

    modules, said = dict(whole.named_modules()), str(folder / CONFIG)
    stacks = _stacks(config.target_parameters or (), modules)
    ranks = {
        _layer(name): len(t) // stacks.get(_layer(name), ("", 1))[1]
        for name, t in tensors.items()
        if name.endswith(_FIRST_HALF)
    }
    copied = sorted({_copied(name, modules, config.modules_to_save or ()) for name in tensors if ".lora_" not in name})
    lora = {_layer(name) for name in tensors if ".lora_" in name}
    if strangers := sorted({*lora, *copied} - modules.keys() - stacks.keys()):
        raise ValueError(
            f"{folder}: {len(strangers)} of the {len(lora) + len(copied)} adapted modules are not in the model, for "
            f"instance {strangers[:3]}; is it the adapter of another model?"
        )
    if not ranks:
        raise ValueError(f"{folder}: it holds no LoRA weights")
    wanted = {name for name, module in modules.items() if _targeted(config, name, module, where=said)} | stacks.keys()
    if lacking := sorted(wanted - lora):
        raise ValueError(
            f"{folder}: {len(lacking)} layers that its target_modules or target_parameters name have no weights in "
            f"it, for instance {lacking[:3]}; it is incomplete, or was trained on another model"
        )
    table = whole.get_input_embeddings()
    if any(modules.get(name) is table for name in lora) and whole.config.tie_word_embeddings:
        raise ValueError(
            f"{folder}: it adapts the embeddings, whose table is the output layer's too in this model, so that merging "
            "it would change both. Leave embed_tokens out of the adapter's target_modules"
        )
    halves = {_layer(name) for name in tensors if name.endswith(_SECOND_HALF)}
    if lone := sorted(halves ^ ranks.keys()):
        raise ValueError(f"{folder}: {lone[0]} has only one of its matrices lora_A and lora_B; copy the adapter again")
    alphas = {}
    ranks = {stacks[name][0] if name in stacks else name: rank for name, rank in ranks.items()}
    for name, rank in ranks.items():
        own = value_of(config.rank_pattern, name, config.r, where=f"{said}: rank_pattern")
        if own != rank:
            raise ValueError(f"{folder}: {name} has rank {rank}, but {CONFIG} says {own}")
        alphas[name] = value_of(config.alpha_pattern, name, config.lora_alpha, where=f"{said}: alpha_pattern")
    return LoraConfig(
        r=config.r,
        lora_alpha=config.lora_alpha,
        target_modules=sorted(lora - stacks.keys()),
        target_parameters=sorted(name for name, _ in stacks.values()) or None,
        rank_pattern=_exact(ranks),
        alpha_pattern=_exact(alphas),
        modules_to_save=copied or None,
        use_rslora=config.use_rslora,
        use_dora=config.use_dora,
        fan_in_fan_out=config.fan_in_fan_out,
        # These ways to begin also change the adapted weights, in the same way each time. The others do not matter here.
        init_lora_weights=config.init_lora_weights if _changes_base(config) else True,
        inference_mode=True,
    )


def _stacks(targets: Collection[str], modules: Mapping[str, nn.Module]) -> dict[str, tuple[str, int]]:
    """Returns the parameters that an adapter adapts, and how many matrices each has, by the name of the adapter.

    Adapters of two parameters of a module lie in each other, that of the first one innermost.
    """
    found = {}
    for owner, module in modules.items():
        own = [(f"{owner}.{name}", p) for name, p in module.named_parameters(recurse=False)]
        own = [(name, p) for name, p in own if any(f".{name}".endswith(f".{target}") for target in targets)]
        for depth, (name, p) in enumerate(reversed(own)):
            found[owner + ".base_layer" * depth] = (name, len(p) if p.dim() == 3 else 1)
    return found


def _changes_base(config: LoraConfig) -> bool:
    return str(config.init_lora_weights).lower().startswith(CHANGES_BASE)


def _layer(name: str) -> str:
    return name.removeprefix(PREFIX).partition(".lora_")[0]


def _copied(name: str, modules: Mapping[str, nn.Module], wanted: Sequence[str]) -> str:
    local = name.removeprefix(PREFIX)
    owners = [local.rsplit(".", n)[0] for n in range(1, local.count(".") + 1)]
    return next((o for o in owners if any(o == w or o.endswith(f".{w}") for w in wanted)), local)


def _targeted(config: LoraConfig, name: str, module: nn.Module, *, where: str) -> bool:
    if config.target_modules in (None, "all-linear") or not isinstance(module, nn.Linear | nn.Conv2d | nn.Embedding):
        return False
    return bool(name) and targets(config, name, where=where)


def _exact(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace(".", r"\."): value for name, value in values.items()}


def _merge(whole: PreTrainedModel, config: LoraConfig, tensors: dict[str, Tensor], folder: Path) -> None:
    from peft import PeftModel, set_peft_model_state_dict

    with warnings.catch_warnings():
        # peft uses the patterns of parameters, and says that it does not.
        warnings.filterwarnings("ignore", "The following (rank|alpha)_pattern keys", RuntimeWarning)
        wrapped = PeftModel(whole, config)
    try:
        report = set_peft_model_state_dict(wrapped, tensors)
    except KeyError as error:
        raise ValueError(f"{folder}: {error} is missing in it; copy the adapter again") from error
    except RuntimeError as error:
        raise ValueError(
            f"{folder}: its shapes are not those of this model: {str(error).strip().splitlines()[-1].strip()}"
        ) from error
    missing = [name for name in report.missing_keys if "lora_" in name or "modules_to_save" in name]
    if missing or report.unexpected_keys:
        raise ValueError(
            f"{folder}: not all of it fits the model: {len(report.unexpected_keys)} tensors are not known "
            f"{sorted(report.unexpected_keys)[:3]}, {len(missing)} are missing {sorted(missing)[:3]}"
        )
    for name, module in adapted_modules(whole):
        whole.set_submodule(name, merged_layer(module))
    # What is left are the modules that were copied whole.
    left: Any = wrapped
    left.merge_and_unload()


def _restore_types(whole: PreTrainedModel, dtypes: Mapping[str, torch.dtype]) -> None:
    whole.requires_grad_(False)
    for name, parameter in whole.named_parameters():
        parameter.data = parameter.data.to(dtypes[name])
    if hasattr(whole, "peft_config"):
        del whole.peft_config


def _same(named: str | None, base: str) -> bool:
    return not named or named == base or Path(named).name == Path(base).name


def _root(model: Model) -> str:
    names: list[str] = [name for name, module in model.named_modules() if module is model.of_transformers]
    return names[0]


def _copy_outside(model: Model, path: Path) -> list[str]:
    if not path.is_file():
        return []
    parameters = dict(model.named_parameters())
    found = whole_tensors(path)
    for name, tensor in found.items():
        if name not in parameters or parameters[name].shape != tensor.shape:
            raise ValueError(
                f"{path}: {name} {tuple(tensor.shape)} is not in the model; set model.vision, model.projector and "
                "model.language as in the run that wrote it"
            )
        parameters[name].data.copy_(tensor)
    return list(found)
