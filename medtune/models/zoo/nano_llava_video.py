"""nano_llava_video: LLaVA-Video's random, tiny twin, only for tests: 5 x 5 patches, 12 tokens a frame."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.nano.transformers_vlm import Nano, byte_tokenizer, clip_config, nano_entry, text_config, token_id
from medtune.models.nano.twin import Twin
from medtune.models.transformers_vlm.families.llava_video.model import IMAGE, VIDEO, LlavaVideoConfig, build_processor

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", IMAGE, VIDEO)
SIDE_PX = 70

TWIN = Twin(
    vision=(
        "whole.model.vision_tower.encoder.layers.{0,1}.self_attn.{q,k,v,out}_proj",
        "whole.model.vision_tower.encoder.layers.{0,1}.mlp.fc{1,2}",
    ),
    projector=("whole.model.multi_modal_projector.linear_{1,2}",),
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.multi_modal_projector.linear_{1,2}.{weight,bias}", "whole.model.image_newline"),
    # The processor is OneVision's, which counts other tokens. The tests of this family count them by hand.
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random LLaVA-Video of width 32; for tests", "llava_video", build, TWIN)


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
