"""Loads CT-CHAT from a local folder: a tower, a projector, a language model, and perhaps an adapter.

    CT-CLIP_v2.pt                   or clip_visual_encoder.pth, the tower
    non_lora_trainables.bin         the projector; perhaps also the embeddings of the release's five tokens
    adapter_config.json             the adapter of the language model, with adapter_model.safetensors or .bin; optional
    conversation.py                 the file of the published code with the system prompt; optional
    language/                       Llama-3.1-8B-Instruct with its tokenizer

All of them are checked by their names, shapes and sizes before the values of any tensor are read.

Source of the key maps: ibrahimethemhamamci/CT-CHAT@33c9b973 (the projector) and CT-CLIP@a2a155c6 (the tower); CT-CLIP
issues 47 and 48, CT-CHAT issue 5.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from medtune.models.contract import Assembled
from medtune.models.sequence.end_tokens import ContextLimited, ended_by
from medtune.models.sequence.volumes import ADDED_TOKENS, CTChat
from medtune.models.sharding.unread import convert_when_read, forget_conversions, read, weights_stay_unread
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.volume_parts import VolumeParts
from medtune.models.weights.adapter_settings import CONFIG, read_settings, spelled_out
from medtune.models.weights.causal_language import read_language
from medtune.models.weights.folder_check import why_unread
from medtune.models.weights.key_map import KeyMap, Rule, Stored, check_published, load_published, open_checkpoint
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.releases.release_folder import Words, release_folder, system_prompt_of, weight_files
from medtune.models.weights.tokenizer import read_json, read_tokenizer

_PROJECTOR = r"(?:base_model\.model\.)?model\.mm_projector\."
_IN = "projector.pool.attention.in_proj_weight"

KEY_MAP = KeyMap(
    checkpoint="CT-CHAT's non_lora_trainables.bin",
    rules=(
        Rule(_PROJECTOR + r"attn_pool\.query", ("projector.pool.query_QD",)),
        Rule(_PROJECTOR + r"attn_pool\.ln_q\.(.+)", (r"projector.pool.norm_query.\1",)),
        Rule(_PROJECTOR + r"attn_pool\.ln_k\.(.+)", (r"projector.pool.norm_features.\1",)),
        Rule(_PROJECTOR + r"attn_pool\.to_q\.weight", (_IN,), part=0),
        Rule(_PROJECTOR + r"attn_pool\.to_kv\.weight", (_IN,), part=1),
        Rule(_PROJECTOR + r"attn_pool\.to_out\.weight", ("projector.pool.attention.out_proj.weight",)),
        Rule(_PROJECTOR + r"ln\.(.+)", (r"projector.norm.\1",)),
        Rule(_PROJECTOR + r"proj\.(.+)", (r"projector.mlp.\1",)),
    ),
)

PROJECTOR_FILE = "non_lora_trainables.bin"
LANGUAGE_FOLDER = "language"
_ADAPTER, _ADAPTER_FILES = "adapter_config.json", ("adapter_model.safetensors", "adapter_model.bin")
_LANGUAGE = "the language model of CT-CHAT"
_ROWS = re.compile(r"(?:base_model\.model\.)?(?:model\.)?(model\.embed_tokens|lm_head)\.weight")
_HALVES = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")


def _tower(prefix: str) -> KeyMap:
    stack = prefix + r"enc_(spatial|temporal)_transformer\."
    layer = stack + r"layers\.(\d+)\."
    ours = r"vision.\1.layers.\2."
    first = ("first_norm", "first_linear", "first_out")
    return KeyMap(
        checkpoint="CT-CLIP_v2.pt" if prefix else "CT-CHAT's clip_visual_encoder.pth",
        rules=(
            *(
                Rule(prefix + rf"to_patch_emb\.{theirs}\.(.+)", (rf"vision.patch_embedding.{theirs - 1}.\1",))
                for theirs in (1, 2, 3)
            ),
            *(
                Rule(prefix + rf"to_patch_emb_first_frame\.{i + 1}\.(.+)", (rf"vision.unread.{name}_\1",))
                for i, name in enumerate(first)
            ),
            Rule(prefix + r"to_pixels\.0\.(.+)", (r"vision.unread.pixels_\1",)),
            Rule(prefix + r"to_pixels_first_frame\.0\.(.+)", (r"vision.unread.first_pixels_\1",)),
            *(
                Rule(prefix + rf"spatial_rel_pos_bias\.net\.{theirs}\.(.+)", (rf"vision.position_bias.net.{ours_}.\1",))
                for theirs, ours_ in ((r"0\.0", 0), (r"1\.0", 2), ("2", 4))
            ),
            Rule(layer + r"0\.dsconv\.(.+)", (ours + r"near.\3",)),
            Rule(layer + r"1\.(q_scale|k_scale|to_q\.weight|to_kv\.weight|to_out\.weight)", (ours + r"attention.\3",)),
            Rule(layer + r"1\.norm\.gamma", (ours + "attention.norm.weight",)),
            Rule(layer + r"3\.0\.(.+)", (ours + r"mlp.norm.\3",)),
            Rule(layer + r"3\.1\.weight", (ours + "mlp.to_hidden.weight",)),
            Rule(layer + r"3\.4\.weight", (ours + "mlp.to_out.weight",)),
            Rule(stack + r"norm_out\.gamma", (r"vision.\1.norm.weight",)),
            Rule(prefix + r"vq\._codebook\.embed", ("vision.codebook_1KD",)),
        ),
        left_out=(
            # The release has no learned keys or values beside those of the tokens, so the tensor is empty.
            layer + r"1\.null_kv",
            # Only attention to another sequence would read this norm.
            layer + r"1\.context_norm\.gamma",
            prefix + r"vq\._codebook\.(initted|cluster_size|embed_avg)",
            r"text_transformer\..+",
            r"to_(text|visual)_latent(_extra)?\.weight",
            "temperature",
        ),
        zeros=(layer + r"1\.(norm|context_norm)\.beta", stack + r"norm_out\.beta"),
    )


CT_CLIP = _tower(r"visual_transformer\.")
VISUAL_ENCODER = _tower("")


TOWER_FILES = (("CT-CLIP_v2.pt", CT_CLIP), ("clip_visual_encoder.pth", VISUAL_ENCODER))


class _ReleaseFiles(NamedTuple):
    tower: Path
    tower_map: KeyMap
    stored_tower: Stored
    projector: Stored
    rows: Stored  # The tensors of the embeddings that lie beside the projector, by their names in the language model.
    has_adapter: bool


def assemble_ct_chat(parts: VolumeParts, loading: Loading) -> Assembled:
    """Returns CT-CHAT with the weights in a local folder.

    The language model gets the type `model.dtype`. The tower, whose output is the nearest code of a codebook, and the
    projector stay in float32.
    """
    folder = release_folder(loading.weights, "CT-CHAT")
    words = system_prompt_of(folder, loading.system_prompt)
    beside = folder / LANGUAGE_FOLDER
    if not (beside / "config.json").is_file():
        raise FileNotFoundError(
            f"{beside}: no config.json; the folder has to hold Llama-3.1-8B-Instruct (meta-llama/Llama-3.1-8B-Instruct "
            "on the hub) with its tokenizer"
        )
    tokenizer = read_tokenizer(beside)
    tokenizer.add_special_tokens({"additional_special_tokens": list(ADDED_TOKENS)})
    try:
        template = parts.template(tokenizer)
    except ValueError as error:
        raise ValueError(f"{beside}: {error}") from error
    if isinstance(template, CTChat):
        template = template.opened_by(words.text)
    with torch.device("meta"):
        planned = _planned(beside)
        vision, projector = parts.vision(), parts.projector(int(planned.config.hidden_size))
    found = _checked(folder, planned, vision, projector, num_tokens=len(tokenizer))
    language = _language(folder, found, num_tokens=len(tokenizer), loading=loading)
    del planned
    vision, projector = parts.vision(), parts.projector(int(language.config.hidden_size))
    wide = {"vision": torch.float32, "projector": torch.float32}
    fill = partial(load_published, dtypes=wide)
    fill(nn.ModuleDict({"vision": vision}), found.stored_tower.tensors, found.tower_map, where=str(found.tower))
    file = str(folder / PROJECTOR_FILE)
    fill(nn.ModuleDict({"projector": projector}), found.projector.tensors, KEY_MAP, where=file)
    limited = ContextLimited(template, max_tokens=int(language.config.max_position_embeddings))
    return Assembled(
        model=VisionLanguageModel(vision, projector, language),
        template=ended_by(limited, language.generation_config, tokenizer),
        transform=parts.input_of(lambda: vision),
        provenance=_provenance(folder, found, words, loading),
        words={"system_prompt": words.text},
    )


def read_ct_chat_tower(parts: VolumeParts, loading: Loading) -> nn.Module:
    """Returns the tower of CT-CHAT with the weights in a local folder; nothing else in the folder is read."""
    path, key_map = _tower_file(release_folder(loading.weights, "CT-CHAT"))
    with torch.device("meta"):
        planned = nn.ModuleDict({"vision": parts.vision()})
    stored = open_checkpoint([path])
    check_published(planned, stored.outline, key_map, where=str(path))
    vision = parts.vision()
    whole = nn.ModuleDict({"vision": vision})
    load_published(whole, stored.tensors, key_map, where=str(path), dtypes={"vision": torch.float32})
    return vision


def _tower_file(folder: Path) -> tuple[Path, KeyMap]:
    for name, key_map in TOWER_FILES:
        if (folder / name).is_file():
            return folder / name, key_map
    raise FileNotFoundError(f"{folder}: no {' or '.join(file for file, _ in TOWER_FILES)}, the tower of CT-CHAT")


def _planned(folder: Path) -> PreTrainedModel:
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception as error:
        why = why_unread(error)
        raise ValueError(f"{folder / 'config.json'}: no language model that transformers knows: {why}") from error
    return model


def _checked(
    folder: Path, planned: PreTrainedModel, vision: nn.Module, projector: nn.Module, *, num_tokens: int
) -> _ReleaseFiles:
    path, key_map = _tower_file(folder)
    if not (folder / PROJECTOR_FILE).is_file():
        raise FileNotFoundError(f"{folder}: no {PROJECTOR_FILE}, the projector of CT-CHAT")
    language = open_checkpoint(weight_files(folder / LANGUAGE_FOLDER, ("*.safetensors",), _LANGUAGE))
    _check_language(planned, language, folder / LANGUAGE_FOLDER)
    tower = open_checkpoint([path])
    check_published(nn.ModuleDict({"vision": vision}), tower.outline, key_map, where=str(path))
    bridge, rows = _split(open_checkpoint([folder / PROJECTOR_FILE]))
    where = str(folder / PROJECTOR_FILE)
    check_published(nn.ModuleDict({"projector": projector}), bridge.outline, KEY_MAP, where=where)
    for name, tensor in rows.outline.items():
        if tensor.shape != (num_tokens, planned.config.hidden_size):
            raise ValueError(
                f"{where}: {name} is {tuple(tensor.shape)}; the tokenizer has {num_tokens} tokens of width "
                f"{planned.config.hidden_size}"
            )
    return _ReleaseFiles(path, key_map, tower, bridge, rows, _has_adapter(folder, planned))


def _check_language(planned: PreTrainedModel, stored: Stored, folder: Path) -> None:
    own = {name: tuple(tensor.shape) for name, tensor in planned.state_dict().items()}
    tied = {"lm_head.weight"} if planned.config.tie_word_embeddings else set()
    found = {name: tuple(tensor.shape) for name, tensor in stored.outline.items() if "rotary_emb" not in name}
    missing, unknown = sorted(own.keys() - found.keys() - tied), sorted(found.keys() - own.keys())
    other = sorted(name for name in found.keys() & own.keys() if found[name] != own[name])
    if missing or unknown or other:
        raise ValueError(
            f"{folder}: the weights are not those of its config.json: {len(missing)} missing {missing[:3]}, "
            f"{len(unknown)} not known {unknown[:3]}, {len(other)} of another shape {other[:3]}"
        )


def _split(stored: Stored) -> tuple[Stored, Stored]:
    rows = {name: match[1] for name in stored.outline if (match := _ROWS.fullmatch(name))}
    return (
        Stored(
            {name: each for name, each in stored.outline.items() if name not in rows},
            {name: each for name, each in stored.tensors.items() if name not in rows},
        ),
        Stored(
            {f"{ours}.weight": stored.outline[name] for name, ours in rows.items()},
            {f"{ours}.weight": stored.tensors[name] for name, ours in rows.items()},
        ),
    )


def _has_adapter(folder: Path, planned: PreTrainedModel) -> bool:
    weights = next((folder / name for name in _ADAPTER_FILES if (folder / name).is_file()), None)
    if not (folder / _ADAPTER).is_file():
        if weights is not None:
            raise FileNotFoundError(f"{folder}: {weights.name} without {_ADAPTER}, which says how it is applied")
        return False
    rank = read_json(folder / _ADAPTER).get("r")
    if weights is None:
        raise FileNotFoundError(f"{folder}: {_ADAPTER} without {' or '.join(_ADAPTER_FILES)}")
    stored, own = open_checkpoint([weights]), planned.state_dict()
    halves = {name: match for name in stored.outline if (match := _HALVES.fullmatch(name))}
    if not halves:
        raise ValueError(f"{weights}: holds no adapter of a language model (lora_A, lora_B)")
    for name, match in halves.items():
        adapted = own.get(f"{match[1]}.weight")
        shape = tuple(stored.outline[name].shape)
        wanted = (
            None if adapted is None else ((rank, adapted.shape[1]) if match[2] == "A" else (adapted.shape[0], rank))
        )
        if shape != wanted:
            raise ValueError(f"{weights}: {name} is {shape}; the language model and {_ADAPTER} want {wanted}")
    return True


def _language(folder: Path, found: _ReleaseFiles, *, num_tokens: int, loading: Loading) -> PreTrainedModel:
    language = read_language(folder / LANGUAGE_FOLDER, dtype=loading.dtype)
    before = int(language.config.vocab_size)
    for end in (language.get_input_embeddings(), language.get_output_embeddings()):
        # These two get rows of their own in memory, so they are read at once.
        weight = end.get_parameter("weight")
        weight.data = read(weight)
        forget_conversions(weight)
    language.resize_token_embeddings(num_tokens, mean_resizing=False)
    state = language.state_dict()
    with torch.no_grad():
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            if name in found.rows.tensors:
                state[name].copy_(found.rows.tensors[name]())
            elif num_tokens > before:
                # New tokens begin at the mean of the others, so that every process has the same ones.
                state[name][before:] = _mean(state[name][:before])
    if found.has_adapter:
        names = [name for name, module in language.named_modules() if isinstance(module, nn.Linear)]
        settings = spelled_out(read_settings(folder), names, where=str(folder / CONFIG))
        adapted = PeftModel.from_pretrained(language, folder, config=settings)
        if not weights_stay_unread():
            merged: PreTrainedModel = adapted.merge_and_unload()
            return merged
        for module in adapted.modules():
            if isinstance(module, LoraLayer):
                convert_when_read(module.get_base_layer().get_parameter("weight"), partial(_with_adapter, module))
        plain: PreTrainedModel = adapted.unload()
        return plain
    return language


def _with_adapter(layer: Any, weight: Tensor) -> Tensor:
    base = layer.get_base_layer()
    kept = base.weight.data
    base.weight.data = weight.clone()
    layer.merge()
    merged: Tensor = base.weight.data
    base.weight.data = kept
    return merged


def _mean(rows_VE: Tensor) -> Tensor:
    return rows_VE.float().mean(dim=0).to(rows_VE.dtype)


def _provenance(folder: Path, found: _ReleaseFiles, words: Words, loading: Loading) -> dict[str, str]:
    adapter = f", {_ADAPTER} merged" if found.has_adapter else ""
    rows = f", embeddings of {PROJECTOR_FILE}" if found.rows.outline else ""
    return {
        "vision": found.tower.name,
        "projector": PROJECTOR_FILE,
        "language": f"{LANGUAGE_FOLDER} in {folder.name}, {loading.dtype}{adapter}{rows}",
        "system prompt": words.described,
    }
