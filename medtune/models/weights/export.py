"""Exports a trained model as a folder with merged adapters, tokenizer and configuration, and reads it back.

A model of transformers is written in transformers' own format, which other tools can read. A model that medtune puts
together from a tower, a projector and a language model is written as a manifest, a file with the tower and the
projector, and a folder in transformers' format with the language model:

    medtune.json
    vision_projector.safetensors
    language/               config.json, model.safetensors, the tokenizer

The versions of transformers, vLLM and SGLang that read what `medtune export` writes: the one place that says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig

from medtune.data.files import give_usual_permissions, json_file, text_fields
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.contract import PARTS, Assembled, Model
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.quantize import adapted_modules, is_quantized
from medtune.models.vlm import LANGUAGE_FOLDER, VISION_PROJECTOR_FILE
from medtune.models.weights.assets import AssetError
from medtune.models.weights.folder_check import whole_tensors
from medtune.models.weights.hub import SMALL_FILES, checkpoint_folder, refuse_revision
from medtune.models.weights.loading_options import CODES, DEFAULT, Loading, refuse_loading
from medtune.models.weights.write_adapter import merged_layer

if TYPE_CHECKING:
    from medtune.models.volumes.volume_parts import VolumeInput

MANIFEST = "medtune.json"
_LANGUAGE_FILE = "model.safetensors"

_TEXTS = ("provenance", "words", "about")
OLDEST_TRANSFORMERS = "5.6"
"""The oldest version that reads an export and gives the same log-probabilities.

Source: exports of the twins nano_qwen2vl, _qwen25vl, _qwen3vl, _gemma3, _mllama, _llava, _llava_next_video,
_llava_onevision and _internvl, written by transformers 5.23.0 and read on 2026-11-23 by 4.57.6, 5.0.0, 5.4.0, 5.6.2,
5.8.1, 5.10.4, 5.12.1 and 5.16.1. From 5.6.2 on all nine gave the log-probabilities of 5.23.0 to 5 digits. 5.4.0 gave
others for Qwen2.5-VL without a word, and 5.0.0 and 5.4.0 left the towers of Gemma 3 and LLaVA random, with a warning.
4.57.6 does not know `rope_parameters` in config.json (it took 1000000 for Qwen2.5-VL's rotary base of 10000), and
refuses Mllama, Qwen3-VL and the tokenizers. Adapters of nano_qwen25vl, _gemma3, _mllama and _llava in the same
versions, with peft 0.21.2: the same from 5.6.2 on, others in 5.0.0 and 5.4.0, no answer from 4.57.6.
"""
_VLLM = "vLLM 0.33 (it needs transformers 5.16.1 to 5.20)"
_SGLANG = "SGLang 0.5.23 (it needs transformers 5.19.0)"
_NOT_IN_VLLM = {"mllama": "vLLM removed Llama 3.2 Vision in 0.10.2"}
"""Source: vLLM 0.33.0, model_executor/models/registry.py, and SGLang 0.5.23, read from their wheels."""
_VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values of vLLM's `max_lora_rank`.

Source: vLLM 0.33.0, config/lora.py.
"""
_NO_LORA_IN_VLLM = ("llava_onevision", "mllama")
"""Source: vLLM 0.33.0: the classes that do not inherit SupportsLoRA."""


def merge_adapters(model: nn.Module, *, dtype: torch.dtype | None = None) -> int:
    """Merges every adapter into the weight that it adapts, in place, and returns the number of adapters."""
    if held := [name for name, p in model.named_parameters() if is_quantized(p)]:
        raise ValueError(f"{held[0]} is in 4 bits; load the model without model.language_bits to merge adapters")
    adapted = adapted_modules(model)
    for name, module in adapted:
        try:
            model.set_submodule(name, merged_layer(module, dtype))
        except ValueError as error:
            raise ValueError(f"{name}: merged with its adapter it has weights that are not finite") from error
    for parameter in model.parameters() if dtype else ():
        parameter.data = parameter.data.to(dtype)
    return len(adapted)


def write_exported(
    assembled: Assembled, folder: Path, *, name: str, base_weights: str | None, about: Mapping[str, str] | None = None
) -> None:
    """Writes a model without adapters into an empty folder."""
    assembled.template.save(assembled.model.save(folder))
    manifest = {
        "model": name,
        "base_weights": base_weights,
        "provenance": assembled.provenance,
        "words": assembled.words,
        "about": dict(about or {}),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    give_usual_permissions(folder)


def assemble_model(name: str, seed: int, loading: Loading = DEFAULT) -> Assembled:
    """Returns a model of the zoo with its weights, or with those of an exported folder that `loading.weights` names.

    The adapter that `loading.adapter` names is merged into these weights. A merged model, and an exported folder in
    medtune's own form, are read at once, also where weights are to stay unread.
    """
    if loading.weights is not None and Path(loading.weights).is_dir():
        refuse_revision(loading.weights, loading.revision)
    check_loading(name, zoo_entry(name, loading.weights), loading)
    if loading.adapter is None:
        return _without_adapter(name, seed, loading)
    from medtune.models.weights.read_adapter import check_adapter, merge_adapter

    check_adapter(loading.adapter)
    with leaving_weights_unread(False):
        assembled = _without_adapter(name, seed, replace(loading, adapter=None))
    return merge_adapter(assembled, loading.adapter, base=base_of(name, loading))


def base_of(name: str, loading: Loading) -> str:
    """Returns the hub id or the folder of a model's pretrained weights, or the model's name if it has neither."""
    hub = zoo_entry(name, loading.weights).hub
    return loading.weights or (hub.repo_id if hub else name)


def checkpoint_dtype(where: str, revision: str | None) -> torch.dtype | None:
    """Returns the number format of a checkpoint of transformers by its config.json; None if that does not say it."""
    folder = checkpoint_folder(where, what="configuration", revision=revision, files=SMALL_FILES)
    said, _ = PreTrainedConfig.get_config_dict(folder, local_files_only=True)
    found = getattr(torch, str(said.get("dtype") or said.get("torch_dtype")), None)
    return found if isinstance(found, torch.dtype) else None


def _without_adapter(name: str, seed: int, loading: Loading) -> Assembled:
    if loading.weights is None or not is_exported(loading.weights):
        return _assembled(zoo_entry(name, loading.weights), seed, loading)
    folder = Path(loading.weights)
    manifest = _manifest(folder)
    # An export says the same words as the model that was exported, unless the recipe has others.
    kept = {field: text for field, text in manifest.get("words", {}).items() if getattr(loading, field) is None}
    loading = replace(loading, **kept)
    if manifest["model"] != name:
        raise ValueError(f"{folder}: an export of the model {manifest['model']!r}; set model.name to it, not {name!r}")
    # A folder that only says what its weights learnt from has no parts, and is no export that can be put together.
    if lacking := [part for part in PARTS if part not in manifest["provenance"]]:
        raise ValueError(
            f"{folder / MANIFEST}, field provenance.{lacking[0]} is missing. Copy the exported folder again, or export "
            "the run again."
        )
    if (folder / VISION_PROJECTOR_FILE).is_file():
        # Where the recipe names another language model, the export holds its architecture and tokenizer beside its
        # weights, so that it need not be downloaded again.
        language = loading.language and str(folder / LANGUAGE_FOLDER)
        with leaving_weights_unread(False):
            assembled = zoo_entry(name, loading.weights).assemble(
                seed, replace(loading, weights=manifest["base_weights"], language=language)
            )
        _read_parts(assembled.model, folder)
        from medtune.models.volumes.ctvit_code_input import recoded

        tower = assembled.model.get_submodule("vision")
        assembled = replace(assembled, transform=recoded(assembled.transform, tower))
    else:
        assembled = zoo_entry(name, loading.weights).assemble(seed, loading)
    said: dict[str, str] = {part: f"{manifest['provenance'][part]}; exported to {folder.name}" for part in PARTS}
    return replace(assembled, provenance={**assembled.provenance, **said})


def check_loading(name: str, entry: ZooEntry, loading: Loading) -> None:
    """Refuses settings of a recipe that a model does not take. Nothing is read for that."""
    # Every model can be read from an exported folder; whether an adapter fits is known when it is read.
    exported = loading.weights is not None and is_exported(loading.weights)
    refuse_loading(
        replace(loading, weights=None if exported else loading.weights, adapter=None),
        takes=entry.takes,
        name=f"model.name {name}",
    )
    if entry.variants:
        from medtune.models.volumes.volume_parts import chosen

        chosen(entry.variants, loading.variant)


def _assembled(entry: ZooEntry, seed: int, loading: Loading) -> Assembled:
    where = loading.weights or (entry.hub.repo_id if entry.hub else None)
    try:
        return entry.assemble(seed, loading)
    except AssetError:
        raise
    except ValueError as error:
        if where is None or where in str(error):
            raise
        raise ValueError(f"{where} (model.weights): {error}") from error


def is_exported(where: str) -> bool:
    """Returns whether `where` is a folder that `write_exported` wrote."""
    return (Path(where) / MANIFEST).is_file()


def read_exported(where: str) -> dict[str, str]:
    """Returns the facts that `write_exported` was given; an empty dictionary for folders of earlier versions."""
    return dict(_manifest(Path(where))["about"])


def _manifest(folder: Path) -> dict[str, Any]:
    path, todo = folder / MANIFEST, "Copy the exported folder again, or export the run again."
    found = json_file(path, dict, "the description of an exported model", todo=todo)
    names = {name: text_fields(path, found.get(name, {}), field=name, todo=todo) for name in _TEXTS}
    for name in ("model", "base_weights"):
        if not isinstance(found.get(name), str | None):
            raise ValueError(f"{path}, field {name}: wanted a name, got {type(found.get(name)).__name__}. {todo}")
    return {**found, **names, "model": found.get("model"), "base_weights": found.get("base_weights")}


def _read_parts(model: Model, folder: Path) -> None:
    language = whole_tensors(folder / LANGUAGE_FOLDER / _LANGUAGE_FILE)
    found = {
        **whole_tensors(folder / VISION_PROJECTOR_FILE),
        **{f"language.{key}": tensor for key, tensor in language.items()},
    }
    state = model.state_dict()
    # Tied weights are written only once, under one of their names.
    held = {state[key].data_ptr() for key in found.keys() & state.keys()}
    missing = sorted(key for key in state.keys() - found.keys() if state[key].data_ptr() not in held)
    unknown = sorted(found.keys() - state.keys())
    other = sorted(key for key in found.keys() & state.keys() if found[key].shape != state[key].shape)
    if missing or unknown or other:
        raise ValueError(
            f"{folder}: not the weights of its model: {len(missing)} missing {missing[:3]}, {len(unknown)} not known "
            f"{unknown[:3]}, {len(other)} of another shape {other[:3]}; was it written by another version?"
        )
    model.load_state_dict(found, strict=False)


def volume_input(name: str, seed: int, loading: Loading = DEFAULT) -> VolumeInput | None:
    """Returns the transform that `assemble_model` gives a model over volumes; None where it reads no volumes as such.

    No weights are loaded, except where the tower itself makes the input (codes): then the tower is, and the whole model
    where the tower lies in an exported folder or has an adapter.
    """
    entry = zoo_entry(name, loading.weights)
    check_loading(name, entry, loading)
    is_changed = loading.adapter is not None or (loading.weights is not None and is_exported(loading.weights))
    if loading.variant == CODES and is_changed:
        from medtune.models.volumes.volume_parts import VolumeInput

        transform = assemble_model(name, seed, loading).transform
        return transform if isinstance(transform, VolumeInput) else None
    return entry.volume_input(seed, loading)


def merged_read_by(model_type: str | None) -> list[str]:
    """Returns sentences on who reads a merged export; no model type is that of what only medtune puts together."""
    if model_type is None:
        return ["Only medtune reads the whole folder; the folder `language` is a model of transformers for text alone."]
    lines = [
        f"Written by transformers {transformers.__version__}. transformers {OLDEST_TRANSFORMERS} and newer read it; "
        "older ones do not: 4.57 does not know its configuration, and 5.0 to 5.5 can give other answers without an "
        "error."
    ]
    if model_type in _NOT_IN_VLLM:
        lines.append(f"Servers: {_SGLANG}; not vLLM: {_NOT_IN_VLLM[model_type]}. We have not run it there.")
    else:
        lines.append(f"Servers by their version of transformers: {_VLLM} and {_SGLANG}. We have not run them.")
    return lines


def adapter_read_by(
    model_type: str | None, *, ranks: Sequence[int], copies_modules: bool, dora: bool, stacks: bool
) -> list[str]:
    """Returns sentences on who reads an adapter folder."""
    if model_type is None:
        return ["PEFT reads the adapters of the language model; only medtune puts the whole model together."]
    lines = [
        f"Written for transformers {transformers.__version__} and its names of layers; peft reads it with "
        f"transformers {OLDEST_TRANSFORMERS} and newer. With 5.0 to 5.5 the answers can be others without an error, "
        "and in 4.57 the layers of towers have other names: use neither."
    ]
    because = []
    if copies_modules:
        because.append("it holds whole modules (modules_to_save), such as the projector")
    if dora:
        because.append("it has DoRA")
    if stacks:
        because.append("it adapts stacks of matrices (target_parameters), which we have not tried there")
    if model_type in _NO_LORA_IN_VLLM:
        because.append(f"vLLM takes no adapters for {model_type}")
    if max(ranks) > max(_VLLM_RANKS):
        because.append(f"its rank {max(ranks)} is above {max(_VLLM_RANKS)}")
    if because:
        lines.append(f"vLLM 0.33 does not serve it as an adapter: {'; '.join(because)}. Serve the merged export.")
    else:
        fits = min(rank for rank in _VLLM_RANKS if rank >= max(ranks))
        lines.append(f"vLLM 0.33 takes it with --enable-lora --max-lora-rank {fits}. We have not run it there.")
    return lines
