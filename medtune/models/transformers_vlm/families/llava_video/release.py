"""Loads LLaVA-Video from its released folder: config.json, a tokenizer, and tensors under LLaVA-NeXT's names."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import init_empty_weights
from torch import Tensor
from transformers import AutoModelForMultimodalLM, PreTrainedModel

from medtune.models.contract import Assembled
from medtune.models.sequence.visual_placeholders import TIME_SENTENCE, llava_video
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.families.llava_video.model import LlavaVideoConfig, build_processor
from medtune.models.transformers_vlm.loading import pretrained, put_together, refuse_pixel_limits
from medtune.models.transformers_vlm.originals.read import fill
from medtune.models.weights.hub import described
from medtune.models.weights.keymaps.key_map import open_checkpoint, translate
from medtune.models.weights.keymaps.originals import LLAVA_VIDEO as KEY_MAP
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.releases.release_folder import (
    INDEX,
    SMALL,
    Words,
    release_folder,
    time_sentence_of,
    weight_files,
)
from medtune.models.weights.tokenizer import read_json, read_tokenizer

SO400M: Mapping[str, Any] = {
    "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 26,
    "num_attention_heads": 16, "image_size": 384, "patch_size": 14, "vision_use_head": False,
}  # fmt: skip
"""Sizes of google/siglip-so400m-patch14-384 without its last block, whose input LLaVA-Video takes as features."""
_MAX_TILES = 6
"""Largest number of tiles along a side of an image.

Source: scripts/video/train, image_grid_pinpoints (1x1) to (6x6).
"""
_TOWER = "siglip-so400m-patch14-384"
_EMBEDDINGS = "model.embed_tokens.weight"
_FILES = ("*.safetensors",)
_LAID_OUT: Mapping[str, object] = {
    "mm_newline_position": "grid",
    "mm_spatial_pool_mode": "bilinear",
    "mm_spatial_pool_stride": 2,
    "mm_projector_type": "mlp2x_gelu",
    "mm_patch_merge_type": "spatial_unpad",
    "image_aspect_ratio": "anyres_max_9",
}
"""Settings of config.json for which the code here is made; a folder with other settings is refused."""
_SIZES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings", "rms_norm_eps", "bos_token_id", "eos_token_id",
)  # fmt: skip


def assemble_llava_video(where: str, loading: Loading, *, vision: Mapping[str, Any] = SO400M) -> Assembled:
    """Returns the model of a hub repository or a local folder: a release, or a folder that `medtune export` wrote."""
    folder = release_folder(where, KEY_MAP.checkpoint, SMALL, revision=loading.revision)
    said = _read_config(folder)
    sentence = time_sentence_of(folder, loading.time_sentence, own=TIME_SENTENCE)
    family = find_family("llava_video")
    family = replace(family, sequence=partial(llava_video, time_sentence=sentence.text))
    if said.get("model_type") == LlavaVideoConfig.model_type:
        return _told(pretrained(where, family, loading), sentence)
    refuse_pixel_limits(family, loading)
    config = published_config(said, vision=vision, where=str(folder))
    processor = build_processor(read_tokenizer(folder), config)
    config.image_token_index, config.video_token_index = processor.image_token_id, processor.video_token_id
    folder = release_folder(where, KEY_MAP.checkpoint, (INDEX, *_FILES), revision=loading.revision)
    whole = _filled(config, folder, loading)
    return _told(put_together(whole, processor, family, loading, where=described(where, folder)), sentence)


def _told(assembled: Assembled, sentence: Words) -> Assembled:
    provenance = {**assembled.provenance, "time sentence": sentence.described}
    return replace(assembled, provenance=provenance, words={"time_sentence": sentence.text})


def published_tensors(folder: Path) -> dict[str, Tensor]:
    """Returns the tensors of a released folder under the names of the model here."""
    stored = open_checkpoint(weight_files(folder, _FILES, KEY_MAP.checkpoint))
    named = translate(stored.tensors, KEY_MAP, where=str(folder))
    return {f"whole.{name}": read() for name, read in named.items()}


def published_config(said: Mapping[str, Any], *, vision: Mapping[str, Any], where: str) -> LlavaVideoConfig:
    """Returns the configuration that the settings of a released config.json describe."""
    absent = [name for name in (*_LAID_OUT, *_SIZES[:7], "mm_vision_tower", "rope_theta") if name not in said]
    if absent:
        raise ValueError(f"{where}: config.json is not that of {KEY_MAP.checkpoint}; it has no {', '.join(absent)}")
    for name, wanted in _LAID_OUT.items():
        if said[name] != wanted:
            raise ValueError(f"{where}: {name} is {said[name]!r}, which is not supported; wanted {wanted!r}")
    if not str(said["mm_vision_tower"]).endswith(_TOWER):
        raise ValueError(f"{where}: its tower is {said['mm_vision_tower']!r}; wanted {_TOWER}")
    if said.get("add_faster_video"):
        raise ValueError(f"{where}: add_faster_video mixes two rates of frames, which is not supported")
    rope = {"rope_type": "default", "rope_theta": float(said["rope_theta"])}
    sizes = {name: said[name] for name in _SIZES if name in said}
    tiles = [vision["image_size"] * count for count in range(1, _MAX_TILES + 1)]
    return LlavaVideoConfig(
        text_config={"model_type": "qwen2", **sizes, "rope_parameters": rope},
        vision_config=dict(vision),
        image_grid_pinpoints=[[height, width] for height in tiles for width in tiles],
    )


def _filled(config: LlavaVideoConfig, folder: Path, loading: Loading) -> PreTrainedModel:
    stored = open_checkpoint(weight_files(folder, _FILES, KEY_MAP.checkpoint))
    if _EMBEDDINGS not in stored.outline:
        raise ValueError(f"{folder}: not {KEY_MAP.checkpoint}; it has no {_EMBEDDINGS}")
    text: Any = config.get_text_config()
    text.vocab_size = int(stored.outline[_EMBEDDINGS].shape[0])
    # The weights take no memory until they are read. Buffers are built at once, because some of them (the rotary
    # angles) are computed and not stored in the files.
    with init_empty_weights(include_buffers=False):
        whole: PreTrainedModel = AutoModelForMultimodalLM.from_config(config, trust_remote_code=False)
    fill(whole, stored, KEY_MAP, folder, loading)
    return whole


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder}: no config.json; copy the whole folder of the checkpoint")
    return read_json(path)
