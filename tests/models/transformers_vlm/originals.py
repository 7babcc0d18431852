"""Writes tiny checkpoints in the layouts of InternVL's and LLaVA's own code, from transformers' own tiny models."""

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForMultimodalLM, PreTrainedModel

from medtune.models.nano.transformers_vlm import Nano, text_config, write_nano
from medtune.models.zoo.nano_hub import build_internvl, build_llava, build_llava_onevision
from tests.models.transformers_vlm.generic.checkpoints import llava_next

# Names of transformers and of the authors' code, written out so that the key maps are not checked against themselves.
_INTERNVL = (
    (r"model\.vision_tower\.embeddings\.cls_token", "vision_model.embeddings.class_embedding"),
    (r"model\.vision_tower\.embeddings\.position_embeddings", "vision_model.embeddings.position_embedding"),
    (r"model\.vision_tower\.embeddings\.patch_embeddings\.projection", "vision_model.embeddings.patch_embedding"),
    (r"model\.vision_tower\.encoder\.layer\.", "vision_model.encoder.layers."),
    (r"\.lambda_(\d)", r".ls\1"),
    (r"\.attention\.projection_layer\.", ".attn.proj."),
    (r"\.attention\.([qk]_norm)", r".attn.\1"),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"model\.multi_modal_projector\.layer_norm", "mlp1.0"),
    (r"model\.multi_modal_projector\.linear_1", "mlp1.1"),
    (r"model\.multi_modal_projector\.linear_2", "mlp1.3"),
    (r"^model\.language_model\.", "language_model.model."),
    (r"^lm_head", "language_model.lm_head"),
)
_INTERNLM2 = (
    (r"embed_tokens", "tok_embeddings"), (r"^language_model\.lm_head", "language_model.output"),
    (r"self_attn\.o_proj", "attention.wo"), (r"mlp\.gate_proj", "feed_forward.w1"),
    (r"mlp\.down_proj", "feed_forward.w2"), (r"mlp\.up_proj", "feed_forward.w3"),
    (r"input_layernorm", "attention_norm"), (r"post_attention_layernorm", "ffn_norm"),
)  # fmt: skip
_LLAVA = (
    (r"model\.vision_tower\.", "model.vision_tower.vision_tower.vision_model."),
    (r"model\.multi_modal_projector\.linear_1", "model.mm_projector.0"),
    (r"model\.multi_modal_projector\.linear_2", "model.mm_projector.2"),
    (r"model\.language_model\.", "model."),
)
TOWER = "model.vision_tower.vision_tower."


def internvl(text: str = "qwen2", **eyes: Any) -> Nano:
    """Returns InternVL's twin with a language model and settings of its tower."""
    nano = build_internvl()
    told: Any = nano.config.to_dict()
    more: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4 if text == "phi3" else 1e6}}
    more |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
    if text == "phi3":
        _add_control_tokens(nano, "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
    told["text_config"] = text_config(nano.processor.tokenizer, model_type=text, **more)
    told["vision_config"] = {**told["vision_config"], **eyes}
    return Nano(type(nano.config)(**told), nano.processor)


def llava(text: str = "llama", *, tower: str = "clip_vision_model") -> Nano:
    """Returns LLaVA's twin with a language model and a tower."""
    nano = build_llava()
    told: Any = nano.config.to_dict()
    more: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}} if text == "qwen2" else {}
    if text == "qwen2":
        _add_control_tokens(nano, "<|im_start|>", "<|im_end|>")
    told["text_config"] = text_config(nano.processor.tokenizer, model_type=text, head_dim=16, **more)
    if tower == "siglip_vision_model":
        kept = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size")
        sizes = {name: told["vision_config"][name] for name in kept}
        patch = told["vision_config"]["patch_size"]
        told["vision_config"] = {"model_type": tower, "vision_use_head": False, "patch_size": patch, **sizes}
        told["vision_feature_select_strategy"] = "full"
    return Nano(type(nano.config)(**told), nano.processor)


def _add_control_tokens(nano: Nano, *tokens: str) -> None:
    nano.processor.tokenizer.add_tokens(list(tokens), special_tokens=True)


def cut(kind: str) -> Nano:
    """Returns the twin of LLaVA-NeXT or LLaVA-OneVision, which cut a picture into tiles."""
    return llava_next() if kind == "llava_next" else build_llava_onevision()


def write_original(nano: Nano, folder: Path, *, tower_beside: bool = False, **changes: Any) -> PreTrainedModel:
    """Writes a twin in its authors' layout into a folder, and returns transformers' own model of the same weights."""
    write_nano(nano, folder, seed=0)
    read: Any = AutoModelForMultimodalLM.from_pretrained(folder)
    model: PreTrainedModel = read.eval()
    if model.config.model_type.endswith("_thinker"):
        _speaking(folder)
        return model
    if model.config.model_type == "phi4_multimodal":
        _adapted(model, folder, beside=bool(changes))
        return model
    for path in folder.glob("*"):
        if path.name not in ("tokenizer.json", "tokenizer_config.json"):
            path.unlink()
    _strip(folder / "tokenizer_config.json")
    config = model.config.to_dict()
    text, eyes = config["text_config"], config["vision_config"]
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if config["model_type"] == "internvl":
        tensors, said = _as_internvl(tensors, config, text, eyes)
    else:
        tensors = {_renamed(name, _LLAVA): tensor for name, tensor in tensors.items()}
        said = {
            **text, "model_type": f"llava_{text['model_type']}", "mm_vision_tower": "tower", "mm_hidden_size": 32,
            "mm_projector_type": "mlp2x_gelu", "mm_vision_select_layer": -2, "mm_vision_select_feature": "patch",
            "image_aspect_ratio": "pad", "mm_use_im_start_end": False,
        }  # fmt: skip
        if config["model_type"] != "llava":
            said |= {"mm_patch_merge_type": "spatial_unpad", "image_aspect_ratio": "anyres"}
            said["image_grid_pinpoints"] = config["image_grid_pinpoints"]
        if config["model_type"] == "llava_onevision":
            said |= {"image_aspect_ratio": "anyres_max_9", "image_grid_pinpoints": "(1x1),...,(2x2)"}
            said["mm_vision_select_layer"] = -1
        (folder / "tower").mkdir()
        (folder / "tower" / "config.json").write_text(json.dumps(eyes), "utf-8")
        if tower_beside:
            theirs = {name.removeprefix(TOWER): each for name, each in tensors.items() if name.startswith(TOWER)}
            save_file(theirs, folder / "tower" / "model.safetensors")
            tensors = {name: each for name, each in tensors.items() if not name.startswith(TOWER)}
    said = {key: value for key, value in {**said, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(said), "utf-8")
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return model


def _speaking(folder: Path) -> None:
    """Makes a thinker a part of the model that speaks, as Qwen publishes them."""
    said = json.loads((folder / "config.json").read_text("utf-8"))
    kind = said["model_type"].removesuffix("_thinker")
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "thinker_config": said}), "utf-8")
    tensors = {f"thinker.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    voice = "token2wav" if "2_5" in kind else "code2wav"
    spoken = {f"{name}.weight": torch.zeros(2) for name in ("talker.model.norm", voice)}
    save_file({**tensors, **spoken}, folder / "model.safetensors", metadata={"format": "pt"})


_PHI4 = (
    (r"image_embed\.img_projection_up", "image_embed.img_projection.0"),
    (r"image_embed\.img_projection_down", "image_embed.img_projection.2"),
    (r"global_img_feature_extensor", "glb_GN"), (r"sub_img_feature_extensor", "sub_GN"),
    (r"up_proj_for_speech", "audio_projection.speech.0"), (r"down_proj_for_speech", "audio_projection.speech.2"),
    (r"up_proj_for_vision_speech", "audio_projection.vision.0"),
    (r"down_proj_for_vision_speech", "audio_projection.vision.2"),
    (r"(encoders.+feed_forward_\w+)\.gate_up_proj", r"\1.net.0.linear"),
    (r"(encoders.+feed_forward_\w+)\.down_proj", r"\1.net.2"),
    (r"(encoders.+self_attn)\.([qkv])_proj", r"\1.linear_\2"), (r"(encoders.+self_attn)\.o_proj", r"\1.linear_out"),
)  # fmt: skip


def _adapted(model: Any, folder: Path, *, beside: bool) -> None:
    """Takes adapters for images out of a model, and writes them beside or within the weights, as Microsoft does."""
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    adapter, own = dict[str, Tensor](), dict(model.named_parameters())
    for name in [each for each in tensors if re.match(r"model\.layers\.\d+\.(self_attn|mlp)\..+_proj", each)]:
        root = name.removesuffix(".weight")
        out, width = tensors[name].shape
        for kind in ("vision", "speech"):
            adapter |= {
                f"{root}.lora_A.{kind}.weight": 0.3 * torch.randn(2, width),
                f"{root}.lora_B.{kind}.weight": 0.3 * torch.randn(out, 2),
            }
        with torch.no_grad():
            own[name] += 0.5 * adapter[f"{root}.lora_B.vision.weight"] @ adapter[f"{root}.lora_A.vision.weight"]
        if not beside:
            tensors[f"{root}.base_layer.weight"] = tensors.pop(name)
    if beside:
        (folder / "vision-lora").mkdir()
        told = {"peft_type": "LORA", "r": 2, "lora_alpha": 1}
        (folder / "vision-lora" / "adapter_config.json").write_text(json.dumps(told), "utf-8")
        seen = {f"base_model.model.{n.replace('.vision.', '.')}": t for n, t in adapter.items() if ".vision." in n}
        save_file(seen, folder / "vision-lora" / "adapter_model.safetensors")
    else:
        tensors = {_renamed(name, _PHI4): tensor for name, tensor in {**tensors, **adapter}.items()}
        told = model.config.to_dict()
        rope, eyes, ears = told.pop("rope_parameters"), told.pop("vision_config"), told.pop("audio_config")
        ears |= {
            "attention_dim": ears.pop("hidden_size"), "attention_heads": ears.pop("num_attention_heads"),
            "linear_units": ears.pop("intermediate_size"),
            "nemo_conv_settings": {"conv_channels": ears.pop("nemo_conv_channels")},
            "relative_attention_bias_args": {"t5_bias_max_distance": ears.pop("bias_max_distance")},
        }  # fmt: skip
        sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        told |= {
            "model_type": "phi4mm", "audio_processor": {"config": ears}, "img_processor": {k: eyes[k] for k in sizes},
            "embd_layer": {"image_embd_layer": {"crop_size": 448}, "audio_embd_layer": {"downsample_rate": 1}},
            "vision_lora": {"r": 2, "lora_alpha": 1}, "partial_rotary_factor": rope["partial_rotary_factor"],
            "rope_theta": rope["rope_theta"],
            "rope_scaling": {"type": "longrope", **{k: rope[k] for k in ("short_factor", "long_factor")}},
        }  # fmt: skip
        (folder / "config.json").write_text(json.dumps(told), "utf-8")
        for name in ("processor_config.json", "chat_template.jinja"):
            (folder / name).unlink()
        _strip(folder / "tokenizer_config.json")
        template = (
            "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"
        )
        (folder / "chat_template.jinja").write_text(template, "utf-8")
        (folder / "preprocessor_config.json").write_text('{"dynamic_hd": 4}', "utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _as_internvl(
    tensors: dict[str, Tensor], config: dict[str, Any], text: dict[str, Any], eyes: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    theirs: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if found := re.fullmatch(r"(.+encoder\.layer\.\d+\.)attention\.q_proj\.(.+)", name):
            names = [f"{found[1]}attention.{each}_proj.{found[2]}" for each in "qkv"]
            theirs[_renamed(f"{found[1]}attn.qkv.{found[2]}", _INTERNVL)] = torch.cat([tensors[n] for n in names])
        elif not re.search(r"encoder\.layer\.\d+\.attention\.[kv]_proj", name):
            theirs[_renamed(name, _INTERNVL)] = tensor
    kind = text["model_type"]
    if kind == "llama":
        kind, theirs = "internlm2", _as_internlm2(theirs, text)
    parts = {
        **eyes, "model_type": "intern_vit_6b", "image_size": eyes["image_size"][0], "patch_size": eyes["patch_size"][0],
        "qkv_bias": eyes["attention_bias"], "qk_normalization": eyes["use_qk_norm"],
    }  # fmt: skip
    said = {
        "model_type": "internvl_chat", "llm_config": {**text, "model_type": kind}, "vision_config": parts,
        "ps_version": "v2", "downsample_ratio": 0.5, "select_layer": -1, "template": "internvl2_5",
        "dynamic_image_size": True, "min_dynamic_patch": 1, "max_dynamic_patch": 4, "use_thumbnail": True,
        "force_image_size": eyes["image_size"][0], "tie_word_embeddings": config["tie_word_embeddings"],
    }  # fmt: skip
    return theirs, said


def _as_internlm2(tensors: dict[str, Tensor], text: dict[str, Any]) -> dict[str, Tensor]:
    groups, dim = text["num_key_value_heads"], text["head_dim"]
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if "self_attn.q_proj" in name:
            q, k, v = (
                tensors[name.replace("q_proj", f"{each}_proj")].unflatten(0, (groups, -1, dim)) for each in "qkv"
            )
            made[name.replace("self_attn.q_proj", "attention.wqkv")] = torch.cat([q, k, v], dim=1).flatten(0, 2)
        elif not re.search(r"self_attn\.[kv]_proj", name):
            # The tower's names stay.
            made[_renamed(name, _INTERNLM2 if name.startswith("language_model.") else ())] = tensor
    return made


def _renamed(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, theirs in rules:
        name = re.sub(pattern, theirs, name)
    return name


def _strip(path: Path) -> None:
    """Takes transformers' own names of tokens out of a tokenizer_config.json, as the authors' folders lack them."""
    told = json.loads(path.read_text("utf-8"))
    kept = ("tokenizer_class", "bos_token", "eos_token", "pad_token", "unk_token", "backend", "model_max_length")
    path.write_text(json.dumps({key: value for key, value in told.items() if key in kept}), "utf-8")
