"""LLaVA-Video: SigLIP, a two-layer projector and Qwen2, with a line break behind every row of every frame.

transformers has no class for this model, but one for its parent LLaVA-OneVision, which has the same modules and shows
images in the same way. The models differ in videos: both pool the 27 x 27 patches of a frame to 14 x 14. LLaVA-Video
adds a line break to each of the 14 rows, which makes 210 tokens a frame; OneVision has 196 tokens a frame and one line
break behind the whole video. The configuration has a model type of its own, so that no tool takes the weights for
OneVision's.

Shape legend: B videos, T frames, R rows of pooled patches, W patches of a row, N visual tokens, D embedding width.

Source: LLaVA-VL/LLaVA-NeXT@df179663, scripts/video/train (mm_newline_position grid, mm_spatial_pool_stride 2); Zhang et
al. 2024, arXiv 2410.02713.
"""

import math
from typing import Any

import torch
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
    PreTrainedTokenizerFast,
)

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
