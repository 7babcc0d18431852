"""LLaVA's own layout: LLaVA-1.5, LLaVA-Med, the first HuatuoGPT-Vision, LLaVA-NeXT, OneVision and their relatives.

Source of the key maps: LLaVA-VL/LLaVA-NeXT@df179663 and haotian-liu/LLaVA, llava/model; convert_llava_weights_to_hf.py
of transformers 4.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig

from medtune.models.transformers_vlm.originals.layout import (
    CHATML,
    HF,
    Original,
    kept_tokenizer,
    normalisation,
    pictured,
    refuse,
    stamp,
    text_fields,
    turns,
    with_tokens,
)
from medtune.models.weights.hub import SMALL_FILES, checkpoint_folder
from medtune.models.weights.key_map import KeyMap, Rule, rename
from medtune.models.weights.tokenizer import read_json

LLAVA_TOWER = "model.vision_tower.vision_tower."
_NEWLINE = r"model\.image_newline"

LLAVA = KeyMap(
    checkpoint="a LLaVA checkpoint in its authors' layout",
    rules=(
        rename(f"{LLAVA_TOWER}vision_model.", "model.vision_tower."),
        rename("model.mm_projector.0.", "model.multi_modal_projector.linear_1."),
        rename("model.mm_projector.2.", "model.multi_modal_projector.linear_2."),
        Rule(r"model\.((?:embed_tokens|layers|norm)\..+)", (r"model.language_model.\1",)),
        Rule(r"lm_head\.weight", ("lm_head.weight",)),
    ),
    left_out=(
        # transformers computes both itself and no longer stores them.
        r".*\.rotary_emb\.inv_freq",
        r".*\.vision_model\.embeddings\.position_ids",
        # An image is one row of tokens here, so that no line break is ever shown.
        _NEWLINE,
        # The half of CLIP that reads texts, and a head for pooling.
        rf"{LLAVA_TOWER}(?:text_model|text_projection|visual_projection|logit_scale|logit_bias)(?:\..+)?",
        rf"{LLAVA_TOWER}vision_model\.head\..+",
    ),
)
"""The tower's wrapper in LLaVA-NeXT drops the last block and the pooling head of SigLIP."""
LLAVA_VIDEO = replace(
    LLAVA,
    checkpoint="a LLaVA-Video checkpoint",
    rules=(*LLAVA.rules, Rule(_NEWLINE, ("model.image_newline",))),
    left_out=tuple(each for each in LLAVA.left_out if each != _NEWLINE),
)

_VICUNA = "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
_VICUNA += "detailed, and polite answers to the user's questions. "
_PROMPTS = {
    "llama": ("vicuna_v1", turns("USER: ", " ASSISTANT:", "</s>", _VICUNA)),
    "mistral": ("mistral_instruct", turns("[INST] ", " [/INST]", "</s>")),
    "qwen2": ("ChatML", CHATML()),
}
"""The prompts of LLaVA's code by language model, where the folder's tokenizer has no chat template.

Source: haotian-liu/LLaVA and microsoft/LLaVA-Med, llava/conversation.py (vicuna_v1, mistral_instruct).
"""
_CLIP: Mapping[str, Any] = {
    "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
    "num_attention_heads": 16, "patch_size": 14, "projection_dim": 768,
}  # fmt: skip
_TOWERS: Mapping[str, Mapping[str, Any]] = {
    "clip-vit-large-patch14-336": {**_CLIP, "image_size": 336},
    "clip-vit-large-patch14": {**_CLIP, "image_size": 224},
    "siglip-so400m-patch14-384": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "image_size": 384, "patch_size": 14,
    },
}  # fmt: skip
"""Source: config.json of openai/clip-vit-large-patch14-336, openai/clip-vit-large-patch14 and google/siglip-*."""
_LLAVA_SETTINGS: Mapping[str, tuple[object, ...]] = {
    "mm_projector_type": ("mlp2x_gelu",),
    "mm_use_im_start_end": (False, None),
    "mm_vision_select_feature": ("patch", "cls_patch", None),
    "mm_resampler_type": (None,),
}
"""Settings of config.json that transformers' classes know."""

_MOST_TILES = 64


def llava(folder: Path, said: Mapping[str, Any]) -> Original:
    for key, known in _LLAVA_SETTINGS.items():
        if said.get(key) not in known:
            name = "set model.name=llava_video_7b_qwen2" if "mm_newline_position" in said else HF
            raise refuse(folder, key, said.get(key), name)
    shape, ratio = _shape(folder, said)
    told = str(said.get("model_type", "")).removeprefix("llava").removeprefix("_")
    if not told:
        told = str((said.get("architectures") or [""])[0]).removeprefix("Llava").partition("For")[0].lower()
    kind = {"qwen": "qwen2", "": "llama"}.get(told, told)
    tower = _tower_place(folder, str(said["mm_vision_tower"]))
    eyes = _tower_config(folder, tower)
    layer, feature = said.get("mm_vision_select_layer", -2), said.get("mm_vision_select_feature") or "patch"
    is_clip = eyes["model_type"] == "clip_vision_model"
    key_map = LLAVA if shape == "llava" else replace(LLAVA_VIDEO, checkpoint=LLAVA.checkpoint)
    if not is_clip and layer == -2:
        # LLaVA-NeXT drops SigLIP's last block, whose input are the features; others keep it in the file.
        layer, last = -1, eyes["num_hidden_layers"] - 1
        eyes = {**eyes, "num_hidden_layers": last}
        block = rf"{re.escape(LLAVA_TOWER)}vision_model\.encoder\.layers\.{last}\..+"
        key_map = replace(key_map, left_out=(*key_map.left_out, block))
    tokenizer = kept_tokenizer(folder, stamp(folder))
    tokens = _placeholders(folder, tokenizer, int(said["vocab_size"]), video=shape == "llava_onevision")
    more: dict[str, Any] = {}
    if shape != "llava":
        more["image_grid_pinpoints"] = _pinpoints(folder, said.get("image_grid_pinpoints"), eyes["image_size"])
    if shape == "llava_onevision":
        more |= {"vision_aspect_ratio": ratio, "video_token_index": tokens["<video>"]}
    image = next(iter(tokens))
    build: Callable[..., PreTrainedConfig] = CONFIG_MAPPING[shape]
    config = build(
        text_config=text_fields(folder, said, kind),
        vision_config=eyes if is_clip else {**eyes, "vision_use_head": False},
        image_token_index=tokens[image],
        image_seq_length=(eyes["image_size"] // eyes["patch_size"]) ** 2 + (is_clip and feature == "cls_patch"),
        vision_feature_layer=layer,
        # SigLIP has no token of its own for the whole image.
        vision_feature_select_strategy="default" if is_clip and feature == "patch" else "full",
        tie_word_embeddings=bool(said.get("tie_word_embeddings", False)),
        **more,
    )
    prompt, template = _llava_prompt(folder, tokenizer, kind)
    return Original(
        config,
        partial(_llava_processor, folder, said, config, tuple(tokens), template),
        key_map,
        {"prompt": prompt, "image token": f"{image} holds the place of an image"},
        tower=tower,
    )


def _tower_place(folder: Path, named: str) -> str:
    """Returns the folder of a tower beside or below the checkpoint, or else its name, which is a hub id."""
    last = Path(named).name
    beside = (folder / named, folder / last, folder / "vit" / last, folder.parent / last, Path(named))
    return next((str(each) for each in beside if (each / "config.json").is_file()), named)


def _tower_config(folder: Path, tower: str) -> dict[str, Any]:
    known = _TOWERS.get(Path(tower).name.replace("_", "-"))
    if known is not None and not Path(tower).is_dir():
        return dict(known)
    if "/" not in tower:
        # No hub id, but the name of a tower in somebody's code.
        raise refuse(folder, "mm_vision_tower", tower, HF)
    where = checkpoint_folder(tower, what="vision tower", files=SMALL_FILES)
    told = read_json(where / "config.json")
    told = {"model_type": told.get("model_type"), **told.get("vision_config", told)}
    kind = {"clip": "clip_vision_model", "siglip": "siglip_vision_model"}.get(told["model_type"], told["model_type"])
    if kind not in ("clip_vision_model", "siglip_vision_model"):
        raise refuse(folder, "mm_vision_tower", tower, HF)
    default = CONFIG_MAPPING[kind]()
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size")
    more = ("hidden_act", "layer_norm_eps")
    return {"model_type": kind} | {name: told.get(name, getattr(default, name)) for name in (*names, *more)}


def _shape(folder: Path, said: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the class of transformers for the way in which a picture is cut, and that way."""
    ratio, merged = str(said.get("image_aspect_ratio") or "square"), said.get("mm_patch_merge_type") or "flat"
    if merged == "flat" and ratio in ("pad", "square"):
        return "llava", ratio
    if merged == "spatial_unpad" and (ratio == "anyres" or re.fullmatch(r"anyres_max_\d+", ratio)):
        return ("llava_next" if ratio == "anyres" else "llava_onevision"), ratio
    raise refuse(folder, "image_aspect_ratio with mm_patch_merge_type", f"{ratio} with {merged}", HF)


def _pinpoints(folder: Path, told: object, side: int) -> list[list[int]]:
    """Returns the sizes to which a picture is scaled: they are listed, or stand as `(1x1),...,(6x6)`, in tiles."""
    try:
        if isinstance(told, str) and "x" in told:
            first, *_, last = (int(each) for each in re.findall(r"\d{1,9}", told))
            if last > _MOST_TILES:
                raise ValueError("too many tiles")
            return [[tall * side, wide * side] for tall in range(first, last + 1) for wide in range(first, last + 1)]
        listed = ast.literal_eval(told) if isinstance(told, str) else cast("list[Any]", told)
        return [[int(length) for length in each] for each in listed]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise refuse(folder, "image_grid_pinpoints", f"{told!r:.60}", HF) from None


def _placeholders(folder: Path, tokenizer: Any, rows: int, *, video: bool) -> dict[str, int]:
    """Returns the tokens that hold the places of an image and a video, with their ids, which are rows of the table.

    LLaVA's own code has no such tokens, and their embeddings are never read. A table without a free row has an image in
    the token for unknown text, which a tokenizer that falls back to bytes never writes.
    """
    known, found, free = tokenizer.get_vocab(), dict[str, int](), len(tokenizer)
    for token in ("<image>", *(["<video>"] if video else [])):
        if token in known or free < rows:
            found[token] = known.get(token, free)
            free += token not in known
        elif tokenizer.unk_token is not None and not found:
            found[str(tokenizer.unk_token)] = int(tokenizer.unk_token_id)
        else:
            raise refuse(folder, "vocab_size", rows, f"No row of the table is free for {token}. {HF}")
    return found


def _llava_prompt(folder: Path, tokenizer: Any, kind: str) -> tuple[str, str]:
    if tokenizer.chat_template:
        return f"the chat template of the tokenizer of {folder.name}", str(tokenizer.chat_template)
    known = tokenizer.get_vocab()
    # Yi and others are called Llama and have ChatML's tokens.
    kind = "qwen2" if "<|im_start|>" in known else kind
    if kind not in _PROMPTS or "<|start_header_id|>" in known:
        raise refuse(folder, "its language model", kind, "Put a chat_template.jinja into a copy of the folder")
    name, template = _PROMPTS[kind]
    return f"{name}, as LLaVA's own code writes it; the tokenizer has no chat template", template


def _llava_processor(folder: Path, said: Mapping[str, Any], config: Any, tokens: tuple[str, ...], template: str) -> Any:
    eyes, image = config.vision_config, tokens[0]
    is_clip = eyes.model_type == "clip_vision_model"
    side: dict[str, Any] = {"height": eyes.image_size, "width": eyes.image_size}
    whole: dict[str, Any] = {"size": {"shortest_edge": eyes.image_size}, "crop_size": side}
    scaled = normalisation(folder, {} if is_clip else {"image_mean": [0.5] * 3, "image_std": [0.5] * 3})
    cut: dict[str, Any] = {"image_grid_pinpoints": getattr(config, "image_grid_pinpoints", None)}
    common: dict[str, Any] = {
        "tokenizer": with_tokens(folder, dict(zip(("image_token", "video_token"), tokens, strict=False)), added=tokens),
        "vision_feature_select_strategy": config.vision_feature_select_strategy,
        "chat_template": pictured(template, image, tokens[-1]),
    }
    if config.model_type == "llava_onevision":
        return transformers.LlavaOnevisionProcessor(
            image_processor=transformers.LlavaOnevisionImageProcessor(size=side, **cut, **scaled),
            video_processor=transformers.LlavaOnevisionVideoProcessor(size=side, **scaled),
            num_image_tokens=(eyes.image_size // eyes.patch_size) ** 2,
            vision_aspect_ratio=config.vision_aspect_ratio,
            **common,
        )
    common |= {"patch_size": eyes.patch_size, "num_additional_image_tokens": int(is_clip), "image_token": image}
    if config.model_type == "llava_next":
        return transformers.LlavaNextProcessor(transformers.LlavaNextImageProcessor(**whole, **cut, **scaled), **common)
    pads = said.get("image_aspect_ratio") == "pad"
    return transformers.LlavaProcessor(transformers.LlavaImageProcessor(do_pad=pads, **whole, **scaled), **common)
