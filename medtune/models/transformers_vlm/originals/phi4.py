"""Phi-4-multimodal: the adapter for images is merged when the folder is read; the one for speech is left out.

The authors' layout (`phi4mm`) has the adapters beside each layer in the same files; that of transformers has them in
folders of their own.

Source: config.json of microsoft/Phi-4-multimodal-instruct, and the script convert_phi4_multimodal_weights_to_hf.py of
transformers 4.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from torch import Tensor

from medtune.models.transformers_vlm.originals.layout import HF, Original, pictured, refuse, with_tokens
from medtune.models.weights.hub import IMAGE_ADAPTER
from medtune.models.weights.key_map import Deferred, KeyMap, Rule, open_checkpoint, rename
from medtune.models.weights.tokenizer import read_json, read_tokenizer

_IMAGES, _SOUNDS = (f"model.embed_tokens_extend.{each}_embed." for each in ("image", "audio"))
_CONFORMER = rf"{re.escape(_SOUNDS)}encoder\.encoders\.(\d+)\."
_CONFORMER_HERE = rf"{_SOUNDS}encoder.encoders.\1."
PHI4 = KeyMap(
    checkpoint="a Phi-4-multimodal checkpoint",
    rules=(
        rename(f"{_IMAGES}img_projection.0.", f"{_IMAGES}img_projection_up."),
        rename(f"{_IMAGES}img_projection.2.", f"{_IMAGES}img_projection_down."),
        Rule(rf"{re.escape(_IMAGES)}glb_GN", (f"{_IMAGES}global_img_feature_extensor",)),
        Rule(rf"{re.escape(_IMAGES)}sub_GN", (f"{_IMAGES}sub_img_feature_extensor",)),
        rename(f"{_SOUNDS}audio_projection.speech.0.", f"{_SOUNDS}up_proj_for_speech."),
        rename(f"{_SOUNDS}audio_projection.speech.2.", f"{_SOUNDS}down_proj_for_speech."),
        rename(f"{_SOUNDS}audio_projection.vision.0.", f"{_SOUNDS}up_proj_for_vision_speech."),
        rename(f"{_SOUNDS}audio_projection.vision.2.", f"{_SOUNDS}down_proj_for_vision_speech."),
        *(
            Rule(rf"{_CONFORMER}{theirs}\.(weight|bias)", (rf"{_CONFORMER_HERE}{ours}",))
            for theirs, ours in (
                (r"(feed_forward_(?:in|out))\.net\.0\.linear", r"\2.gate_up_proj.\3"),
                (r"(feed_forward_(?:in|out))\.net\.2", r"\2.down_proj.\3"),
                (r"self_attn\.linear_([qkv])", r"self_attn.\2_proj.\3"),
                (r"self_attn\.linear_out", r"self_attn.o_proj.\2"),
            )
        ),
        # transformers' own names.
        Rule(r"(.+)", (r"\1",)),
    ),
)

_TOKENS = {"image_token": "<|endoftext10|>", "audio_token": "<|endoftext11|>"}
_HEARING = {
    "attention_dim": "hidden_size", "attention_heads": "num_attention_heads", "linear_units": "intermediate_size",
}  # fmt: skip
_MERGED = "the adapter for images (vision-lora) is merged in, and the one for speech is left out"


def phi4(folder: Path, said: Mapping[str, Any]) -> Original | None:
    """Returns the description of a folder; None for one in transformers' layout that has no adapter beside it."""
    if said["model_type"] == "phi4mm":
        lora = said.get("vision_lora")
        if not lora:
            raise refuse(folder, "vision_lora", lora, "Take a folder with the adapter for images")
        return Original(
            _config(folder, said),
            partial(_processor, folder),
            PHI4,
            {"prompt": "the tokenizer's chat template", "adapters": _MERGED},
            partial(_adapted, float(lora["lora_alpha"]) / float(lora["r"]), {}),
        )
    beside = folder / IMAGE_ADAPTER
    if not (beside / "adapter_config.json").is_file():
        return None
    lora = read_json(beside / "adapter_config.json")
    for key in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "modules_to_save"):
        if lora.get(key):
            raise refuse(beside, key, lora[key], "Merge the adapter with peft (merge_and_unload) and save the model")
    files = sorted(beside.glob("*.safetensors"))
    adapter = open_checkpoint(files).tensors if files else {}
    named = {_inside(name): read for name, read in adapter.items()}
    return Original(
        transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False),
        partial(transformers.AutoProcessor.from_pretrained, folder, local_files_only=True, trust_remote_code=False),
        PHI4,
        {"prompt": "the processor's chat template", "adapters": _MERGED},
        partial(_adapted, float(lora["lora_alpha"]) / float(lora["r"]), named),
    )


def _inside(name: str) -> str:
    for half in ("lora_A", "lora_B"):
        name = name.removeprefix("base_model.model.").replace(f".{half}.weight", f".{half}.vision.weight")
    return name


def _config(folder: Path, said: Mapping[str, Any]) -> Any:
    seen, heard = (said["embd_layer"][f"{each}_embd_layer"] for each in ("image", "audio"))
    for key, wanted in {"hd_transform_order": "sub_glb", "use_hd_transform": True}.items():
        if seen.get(key, wanted) != wanted:
            raise refuse(folder, key, seen[key], HF)
    told = said["audio_processor"]["config"]
    hearing = {_HEARING.get(key, key): value for key, value in told.items()} | {
        "nemo_conv_channels": told["nemo_conv_settings"]["conv_channels"],
        "bias_max_distance": told["relative_attention_bias_args"]["t5_bias_max_distance"],
        "downsample_rate": heard.get("downsample_rate", 1),
    }
    ears = transformers.Phi4MultimodalAudioConfig(**_fields_of(transformers.Phi4MultimodalAudioConfig, hearing))
    eyes = transformers.Phi4MultimodalVisionConfig(**(said.get("img_processor") or {}), crop_size=seen["crop_size"])
    tokenizer: Any = read_tokenizer(folder)
    eyes.image_token_id, ears.audio_token_id = (tokenizer.convert_tokens_to_ids(each) for each in _TOKENS.values())
    more = ("rope_theta", "rope_scaling", "partial_rotary_factor")
    own = {key: value for key, value in said.items() if key in more} | _fields_of(
        transformers.Phi4MultimodalConfig, said
    )
    return transformers.Phi4MultimodalConfig(**own, vision_config=eyes, audio_config=ears)


def _fields_of(kind: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)} - {"architectures", "dtype", "transformers_version", "model_type"}
    return {key: value for key, value in told.items() if key in names}


def _processor(folder: Path) -> Any:
    tokenizer = with_tokens(folder, _TOKENS, added=())
    path = folder / "preprocessor_config.json"
    tiles = {key: value for key, value in (read_json(path) if path.is_file() else {}).items() if key == "dynamic_hd"}
    return transformers.Phi4MultimodalProcessor(
        image_processor=transformers.Phi4MultimodalImageProcessor(**tiles),
        audio_processor=transformers.Phi4MultimodalFeatureExtractor(),
        tokenizer=tokenizer,
        chat_template=pictured(str(read_tokenizer(folder).chat_template), _TOKENS["image_token"], "", apart=""),
    )


def _adapted(scale: float, beside: Deferred, tensors: Deferred) -> Deferred:
    """Returns the weights with the adapter for images merged in, whether it stands beside them or in their file."""
    every = {**tensors, **beside}
    roots = {name.partition(".lora_A.vision.")[0] for name in every if ".lora_A.vision." in name}
    if not roots:
        raise ValueError("no adapter for images (vision-lora) is in the files, and the model reads no images without")
    made: dict[str, Callable[[], Tensor]] = {}
    for name, read in tensors.items():
        root = name.removesuffix(".weight").removesuffix(".base_layer")
        if root in roots:
            roots.discard(root)
            halves = (every[f"{root}.lora_{half}.vision.weight"] for half in "AB")
            made[f"{root}.weight"] = partial(_merged, scale, read, *halves)
        elif ".lora_" not in name:
            made[name] = read
    if roots:
        raise ValueError(f"the adapter for images (vision-lora) adapts {min(roots)}, which the weights do not have")
    return made


def _merged(scale: float, read: Callable[[], Tensor], a: Callable[[], Tensor], b: Callable[[], Tensor]) -> Tensor:
    weight = read()
    if weight.is_meta:
        return weight
    # Rounded once, to the type of the weights.
    return (weight.float() + scale * b().float() @ a().float()).to(weight.dtype)
