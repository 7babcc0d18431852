"""InternVL's own layout (`internvl_chat`): InternVL 2, 2.5, 3 and 3.5, and models tuned from them.

Source of the key map: OpenGVLab/InternVL, internvl_chat; convert_internvl_weights_to_hf.py of transformers 4.
"""

import ast
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from torch import Tensor

from medtune.models.transformers_vlm.originals.layout import (
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
from medtune.models.weights.key_map import Deferred, KeyMap, Rule, rename

_BLOCK, _OURS = r"vision_model\.encoder\.layers\.(\d+)\.", r"model.vision_tower.encoder.layer.\1."
INTERNVL = KeyMap(
    checkpoint="an InternVL checkpoint in its authors' layout (internvl_chat)",
    rules=(
        Rule(r"vision_model\.embeddings\.class_embedding", ("model.vision_tower.embeddings.cls_token",)),
        Rule(r"vision_model\.embeddings\.position_embedding", ("model.vision_tower.embeddings.position_embeddings",)),
        rename(
            "vision_model.embeddings.patch_embedding.", "model.vision_tower.embeddings.patch_embeddings.projection."
        ),
        Rule(rf"{_BLOCK}ls([12])", (rf"{_OURS}lambda_\2",)),
        Rule(rf"{_BLOCK}attn\.qkv\.(.+)", tuple(rf"{_OURS}attention.{each}_proj.\2" for each in "qkv")),
        Rule(rf"{_BLOCK}attn\.proj\.(.+)", (rf"{_OURS}attention.projection_layer.\2",)),
        Rule(rf"{_BLOCK}attn\.([qk]_norm\..+)", (rf"{_OURS}attention.\2",)),
        Rule(rf"{_BLOCK}norm1\.(.+)", (rf"{_OURS}layernorm_before.\2",)),
        Rule(rf"{_BLOCK}norm2\.(.+)", (rf"{_OURS}layernorm_after.\2",)),
        Rule(rf"{_BLOCK}(mlp\..+)", (rf"{_OURS}\2",)),
        rename("mlp1.0.", "model.multi_modal_projector.layer_norm."),
        rename("mlp1.1.", "model.multi_modal_projector.linear_1."),
        rename("mlp1.3.", "model.multi_modal_projector.linear_2."),
        # InternLM2's names for what is a Llama.
        rename("language_model.model.tok_embeddings.", "model.language_model.embed_tokens."),
        rename("language_model.output.", "lm_head."),
        *(
            Rule(
                rf"language_model\.model\.layers\.(\d+)\.{theirs}\.weight",
                (rf"model.language_model.layers.\1.{ours}.weight",),
            )
            for theirs, ours in (
                (r"attention\.wo", "self_attn.o_proj"),
                (r"attention_norm", "input_layernorm"),
                (r"ffn_norm", "post_attention_layernorm"),
                (r"feed_forward\.w1", "mlp.gate_proj"),
                (r"feed_forward\.w2", "mlp.down_proj"),
                (r"feed_forward\.w3", "mlp.up_proj"),
            )
        ),
        rename("language_model.lm_head.", "lm_head."),
        rename("language_model.model.", "model.language_model."),
    ),
    left_out=(r".*\.rotary_emb\.inv_freq",),
)

_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_CHATML = ("ChatML", "<|im_start|>", "<|im_end|>\n")
_CLOSE = ("ChatML without line breaks between turns", "<|im_start|>", "<|im_end|>")
_INTERNVL_PROMPTS = {
    "internvl2_5": _CHATML,
    "internvl3": _CHATML,
    "internvl3_5": _CHATML,
    "internlm2-chat": _CLOSE,
    "Hermes-2": _CLOSE,
    "phi3-chat": ("Phi-3's turns", "", "<|end|>"),
}
"""The prompts in InternVL's conversation.py, each with a system message of its own: what opens and what ends a turn.

Source: conversation.py of OpenGVLab/InternVL2-* and InternVL2_5-* (SeparatorStyle.MPT, `sep`).
"""
_LANGUAGES = ("InternLM2ForCausalLM", "LlamaForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_TOWER_SIZES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_channels", "hidden_act",
    "norm_type", "layer_norm_eps", "attention_dropout", "initializer_range",
)  # fmt: skip


def internvl(folder: Path, said: Mapping[str, Any]) -> Original:
    llm, eyes = said["llm_config"], said["vision_config"]
    side, patch = int(eyes["image_size"]), int(eyes["patch_size"])
    known = {"ps_version": "v2", "pad2square": False, "dynamic_image_size": True, "force_image_size": side}
    for key, wanted in known.items():
        if said.get(key, wanted) != wanted:
            raise refuse(folder, key, said[key], HF)
    named = str(said.get("template"))
    if named not in _INTERNVL_PROMPTS:
        raise refuse(folder, "template", named, HF)
    # Mono-InternVL's experts for image tokens have names that the key map does not know.
    for written in llm.get("architectures") or ():
        if written not in _LANGUAGES:
            raise refuse(folder, "its language model", written, HF)
    kind = str(llm.get("model_type"))
    kind, llm = ("llama", {**llm, "attention_bias": llm.get("bias", False)}) if kind == "internlm2" else (kind, llm)
    ratio = float(said.get("downsample_ratio", 0.5))
    tokenizer = kept_tokenizer(folder, stamp(folder))
    config = transformers.InternVLConfig(
        text_config=text_fields(folder, llm, kind),
        vision_config={
            **{key: eyes[key] for key in _TOWER_SIZES if key in eyes},
            "image_size": [side] * 2,
            "patch_size": [patch] * 2,
            "attention_bias": eyes.get("qkv_bias", False),
            "use_qk_norm": eyes.get("qk_normalization", False),
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=int((side // patch * ratio) ** 2),
        downsample_ratio=ratio,
        vision_feature_layer=said.get("select_layer", -1),
        tie_word_embeddings=bool(llm.get("tie_word_embeddings", said.get("tie_word_embeddings", False))),
    )
    system, origin = _system_message(folder, said, named)
    prompt = _INTERNVL_PROMPTS[named][0]
    return Original(
        config,
        partial(_internvl_processor, folder, said, config, _template(named, system)),
        INTERNVL,
        {"prompt": f"{prompt}, {origin}"},
        partial(_parted, config.get_text_config()),
    )


def _system_message(folder: Path, said: Mapping[str, Any], named: str) -> tuple[str, str]:
    if text := said.get("system_message"):
        return str(text), "with the system message of config.json"
    path = folder / "conversation.py"
    for call in ast.walk(ast.parse(path.read_text("utf-8"))) if path.is_file() else ():
        if isinstance(call, ast.Call):
            told = {each.arg: each.value.value for each in call.keywords if isinstance(each.value, ast.Constant)}
            if told.get("name") == named and isinstance(told.get("system_message"), str):
                return str(told["system_message"]), f"with the system message of {named} in {path.name}"
    return "", f"without a system message, as transformers' own -hf checkpoints ({named})"


def _template(named: str, system: str) -> str:
    _, opening, ending = _INTERNVL_PROMPTS[named]
    user, assistant, first = (
        f"{opening}{role}\n" if opening else f"<|{role}|>\n" for role in ("user", "assistant", "system")
    )
    return turns(user, f"{ending}{assistant}", ending, f"{first}{system}{ending}" if system else "")


def _internvl_processor(folder: Path, said: Mapping[str, Any], config: Any, template: str) -> Any:
    side = config.vision_config.image_size[0]
    scaling: dict[str, Any] = {"size": {"height": side, "width": side}, **normalisation(folder, _IMAGENET)}
    named = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    tokenizer = with_tokens(folder, {**named, "video_token": "<video>"}, added=("<video>",))
    tiles = {"min_patches": said.get("min_dynamic_patch", 1), "max_patches": said.get("max_dynamic_patch", 12)}
    return transformers.InternVLProcessor(
        image_processor=transformers.GotOcr2ImageProcessor(crop_to_patches=True, **tiles, **scaling),
        tokenizer=tokenizer,
        video_processor=transformers.InternVLVideoProcessor(**scaling),
        image_seq_length=config.image_seq_length,
        chat_template=pictured(template, "<IMG_CONTEXT>", "<video>"),
    )


def _parted(text: Any, tensors: Deferred) -> Deferred:
    """Cuts InternLM2's attention, which holds the queries of a group of heads beside their key and value."""
    made: dict[str, Callable[[], Tensor]] = {}
    heads, groups = text.num_attention_heads, text.num_key_value_heads
    queries = heads // groups
    for name, read in tensors.items():
        stem, found, ending = name.partition("attention.wqkv.")
        if not found:
            made[name] = read
            continue
        for number, each in enumerate((slice(0, queries), slice(queries, queries + 1), slice(queries + 1, None))):
            whole = f"{stem}self_attn.{'qkv'[number]}_proj.{ending}"
            made[whole] = partial(_group, read, groups, queries + 2, each)
    return made


def _group(read: Callable[[], Tensor], groups: int, size: int, chosen: slice) -> Tensor:
    parted: Tensor = read().unflatten(0, (groups, size, -1))
    return parted[:, chosen].flatten(0, 2)
