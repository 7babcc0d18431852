"""The family of LLaVA-Video, which shows images as LLaVA-OneVision does and ends each row of a frame by a line break.

transformers has no class for the model; `model` defines it, and `release` reads the released files.
"""

from functools import partial

from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.families.llava_video.model import LlavaVideoConfig
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_video
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=(LlavaVideoConfig.model_type,),
        wiring=in_sequence(
            parts("model.vision_tower", "model.multi_modal_projector", "model.image_newline"), decoder=language_model
        ),
        sequence=visual_placeholders.llava_video,
        pixels=("pixel_values", "image_sizes"),
        video=partial(as_video, names=("pixel_values_videos",)),
        processor_writes_videos=False,
        one_item=True,
    )
