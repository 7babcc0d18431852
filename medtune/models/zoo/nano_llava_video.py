"""nano_llava_video: LLaVA-Video's random, tiny twin, for tests alone: 5 x 5 patches, 12 tokens a frame."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import LLAVA_VIDEO
from medtune.models.transformers_vlm.llava_video import IMAGE, VIDEO, LlavaVideoConfig, build_processor
from medtune.models.transformers_vlm.nano import Nano, byte_tokenizer, clip_config, nano_entry, text_config, token_id

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", IMAGE, VIDEO)
SIDE_PX = 70


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random LLaVA-Video of width 32; for tests", LLAVA_VIDEO, build)


def build() -> Nano:
    """Returns the twin's configuration and processor."""
    tokenizer = byte_tokenizer(SPECIAL, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    config = LlavaVideoConfig(
        text_config=text_config(tokenizer, model_type="qwen2"),
        vision_config=clip_config(model_type="siglip_vision_model", vision_use_head=False, image_size=SIDE_PX),
        image_token_index=token_id(tokenizer, IMAGE),
        video_token_index=token_id(tokenizer, VIDEO),
        image_grid_pinpoints=[[SIDE_PX * rows, SIDE_PX * columns] for rows in (1, 2) for columns in (1, 2)],
    )
    return Nano(config, build_processor(tokenizer, config))
