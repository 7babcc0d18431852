"""LLaVA-Video: SigLIP, a two-layer projector and Qwen2, with a line break behind every row of every frame.

transformers has no class for this model, but one for its parent LLaVA-OneVision, which has the same modules and shows
images in the same way. The models differ in videos: both pool the 27 x 27 patches of a frame to 14 x 14. LLaVA-Video
adds a line break to each of the 14 rows, which makes 210 tokens a frame; OneVision has 196 tokens a frame and one line
break behind the whole video. The configuration has a model type of its own, so that no tool takes the weights for
OneVision's. A released folder holds config.json, a tokenizer, and tensors under LLaVA-NeXT's names.

Shape legend: B videos, T frames, R rows of pooled patches, W patches of a row, N visual tokens, D embedding width.

Source: LLaVA-VL/LLaVA-NeXT@df179663, scripts/video/train (mm_newline_position grid, mm_spatial_pool_stride 2); Zhang et
al. 2024, arXiv 2410.02713.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from einops import rearrange
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForMultimodalLM,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionModel,
    LlavaOnevisionPreTrainedModel,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from medtune.models.contract import Assembled
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.loading import pretrained, put_together, refuse_pixel_limits
from medtune.models.transformers_vlm.media import as_video
from medtune.models.transformers_vlm.originals.llava import LLAVA_VIDEO as KEY_MAP
from medtune.models.transformers_vlm.originals.read import fill
from medtune.models.transformers_vlm.visual_tokens import in_sequence
from medtune.models.weights.hub import described
from medtune.models.weights.key_map import open_checkpoint, translate
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

TIME_SENTENCE = "Frames shown of {seconds} seconds of video: {frames}, at {times}."
"""medtune's own words behind a video, for folders that do not hold the published ones."""
POOL_STRIDE = 2
IMAGE, VIDEO = "<image>", "<video>"
CHAT_TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% elif part['type'] == 'video' %}<video>\n"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""medtune's own template, in the format of the conversation "qwen_1_5" with which the checkpoint was trained."""
_MEAN = _STD = (0.5, 0.5, 0.5)
"""The mean and standard deviation of SigLIP's pixels. OneVision's processor would take CLIP's by default."""
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


def family() -> Family:
    return Family(
        model_types=(LlavaVideoConfig.model_type,),
        wiring=in_sequence(
            parts("model.vision_tower", "model.multi_modal_projector", "model.image_newline"), decoder=language_model
        ),
        writer=writer,
        pixels=("pixel_values", "image_sizes"),
        video=partial(as_video, names=("pixel_values_videos",)),
        one_item=True,
    )


def writer(processor: Any, *, time_sentence: str = TIME_SENTENCE) -> Any:
    """Returns OneVision's processor with the visual tokens and the words of LLaVA-Video for a video.

    The model was trained with a sentence behind the video that names the clip's length and the times of its frames
    (`add_time_instruction`).

    Args:
        time_sentence: That sentence, with {seconds}, {frames} and {times} in place of the facts.
    """
    side = math.ceil(math.isqrt(processor.num_image_tokens) / POOL_STRIDE)
    twin = copy.copy(processor)

    def replace_video_token(videos: Any, video_idx: int, *, video_metadata: Any, **_: Any) -> str:
        told = video_metadata[video_idx]
        times_s = [place / told["fps"] for place in told["frames_indices"]]
        return f"{twin.video_token * (side * (side + 1) * len(times_s))}\n{_when(times_s, time_sentence)}"

    twin.replace_video_token = replace_video_token
    return twin


def _when(times_s: Sequence[float], sentence: str) -> str:
    """Returns the sentence about the frames; the times are separated by commas, as in the published code.

    Source: LLaVA-VL/LLaVA-NeXT@df179663, docs/LLaVA_Video_1003.md.
    """
    times = ",".join(f"{time_s:.2f}s" for time_s in times_s)
    return sentence.format(seconds=f"{times_s[-1]:.2f}", frames=len(times_s), times=times)


class LlavaVideoConfig(LlavaOnevisionConfig):
    """LLaVA-OneVision's configuration under a name of its own."""

    model_type = "llava_video"


class LlavaVideoModel(LlavaOnevisionModel):
    """The modules of LLaVA-OneVision, with the visual tokens of a video in LLaVA-Video's order."""

    config_class = LlavaVideoConfig

    def get_video_features(self, pixel_values_videos: Tensor, **settings: Any) -> Any:
        """Returns transformers' record of the tower's outputs.

        Its field `pooler_output` holds the visual tokens of the videos, (B, N, D), with their line breaks.
        """
        features: Any = super().get_video_features(pixel_values_videos, **settings)
        # The last token is OneVision's only line break, which is dropped.
        features.pooler_output = newline_grid(
            features.pooler_output[:, :-1], self.image_newline, side=_side(self.config)
        )
        return features


class LlavaVideoForConditionalGeneration(LlavaOnevisionForConditionalGeneration):
    """LLaVA-Video with its output layer, in the interface of transformers' own models."""

    config_class = LlavaVideoConfig

    def __init__(self, config: LlavaVideoConfig) -> None:
        # OneVision's own constructor is left out, because it would build OneVision's model first.
        LlavaOnevisionPreTrainedModel.__init__(self, config)
        self.model = LlavaVideoModel(config)
        text: Any = config.get_text_config()
        self.lm_head = nn.Linear(text.hidden_size, text.vocab_size, bias=False)
        self.post_init()  # type: ignore[no-untyped-call]


AutoConfig.register(LlavaVideoConfig.model_type, LlavaVideoConfig)
AutoModelForMultimodalLM.register(LlavaVideoConfig, LlavaVideoForConditionalGeneration)


def newline_grid(tokens_BND: Tensor, newline_D: Tensor, *, side: int) -> Tensor:
    """Returns the frames' tokens with a line break behind each row of patches, (B, N / side * (side + 1), D).

    >>> newline_grid(torch.arange(4.0).reshape(1, 4, 1), torch.tensor([9.0]), side=2).flatten().tolist()
    [0.0, 1.0, 9.0, 2.0, 3.0, 9.0]
    """
    rows_BRWD = rearrange(tokens_BND, "b (r w) d -> b r w d", w=side)
    breaks_BR1D = newline_D.to(rows_BRWD).expand(*rows_BRWD.shape[:2], 1, -1)
    return torch.cat([rows_BRWD, breaks_BR1D], dim=2).flatten(1, 2)


def _side(config: LlavaOnevisionConfig) -> int:
    vision: Any = config.vision_config
    patches: int = vision.image_size // vision.patch_size
    return math.ceil(patches / POOL_STRIDE)


def build_processor(tokenizer: PreTrainedTokenizerFast, config: LlavaVideoConfig) -> LlavaOnevisionProcessor:
    """Returns the processor that belongs to a configuration; the released folders hold only a tokenizer.

    The placeholders of visual tokens are added to the tokenizer where they are missing. They are never embedded.
    """
    known = tokenizer.get_added_vocab()
    tokenizer.add_tokens([token for token in (IMAGE, VIDEO) if token not in known], special_tokens=True)
    vision: Any = config.vision_config
    pinpoints: Any = config.image_grid_pinpoints
    scaling: Any = {
        "size": {"height": vision.image_size, "width": vision.image_size}, "image_mean": _MEAN, "image_std": _STD,
    }  # fmt: skip
    return LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(image_grid_pinpoints=pinpoints, **scaling),
        tokenizer=tokenizer,
        video_processor=LlavaOnevisionVideoProcessor(**scaling),
        num_image_tokens=(vision.image_size // vision.patch_size) ** 2,
        vision_feature_select_strategy="full",
        vision_aspect_ratio=config.vision_aspect_ratio,
        chat_template=CHAT_TEMPLATE,
    )


def assemble_llava_video(where: str, loading: Loading, *, vision: Mapping[str, Any] = SO400M) -> Assembled:
    """Returns the model of a hub repository or a local folder: a release, or a folder that `medtune export` wrote."""
    folder = release_folder(where, KEY_MAP.checkpoint, SMALL, revision=loading.revision)
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder}: no config.json; copy the whole folder of the checkpoint")
    said = read_json(path)
    sentence = time_sentence_of(folder, loading.time_sentence, own=TIME_SENTENCE)
    of_family = replace(family(), writer=partial(writer, time_sentence=sentence.text))
    if said.get("model_type") == LlavaVideoConfig.model_type:
        return _with_time_sentence(pretrained(where, of_family, loading), sentence)
    refuse_pixel_limits(of_family, loading)
    config = published_config(said, vision=vision, where=str(folder))
    processor = build_processor(read_tokenizer(folder), config)
    config.image_token_index, config.video_token_index = processor.image_token_id, processor.video_token_id
    folder = release_folder(where, KEY_MAP.checkpoint, (INDEX, *_FILES), revision=loading.revision)
    whole = _filled(config, folder, loading)
    return _with_time_sentence(
        put_together(whole, processor, of_family, loading, where=described(where, folder)), sentence
    )


def _with_time_sentence(assembled: Assembled, sentence: Words) -> Assembled:
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
