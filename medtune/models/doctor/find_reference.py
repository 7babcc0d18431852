"""Finds plain transformers' side for a model: the processor in its checkpoint's folder, or its three parts."""

from copy import deepcopy
from pathlib import Path

from medtune.models.contract import Assembled
from medtune.models.doctor.plain_parts import PartsReference
from medtune.models.doctor.plain_processor import FramesAs, ProcessorReference
from medtune.models.doctor.reference import Reference
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.transformers_vlm.loading import read_processor
from medtune.models.transformers_vlm.media import ProcessorTransform, as_images
from medtune.models.tuning.precision import Precise
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import Loading


def reference_of(
    assembled: Assembled, family: Family | None, *, folder: Path | None, loading: Loading, precise: Precise
) -> Reference:
    """Returns the reference of a model.

    Args:
        assembled: The model.
        family: The family of a model of transformers; None for a model in three parts.
        folder: The folder of the checkpoint, whose processor is read anew; None copies the processor in memory.
        loading: The recipe's settings.
        precise: The precision in which the model answers.
    """
    transform = assembled.transform
    if isinstance(assembled.model, VisionLanguageModel):
        return PartsReference(assembled, assembled.model, precise=precise)
    if isinstance(assembled.model, GenericVlm) and folder is not None:
        processor = read_processor(folder, str(folder))
        return ProcessorReference(assembled, processor, frames="video", precise=precise, writes_answers=True)
    if family is None or not isinstance(transform, ProcessorTransform):
        raise TypeError(f"plain transformers cannot be asked about a {type(assembled.model).__name__}")
    own = folder is not None and family.processor_writes_videos
    processor = read_processor(folder, str(folder)) if folder is not None and own else deepcopy(transform.processor)
    if loading.image_max_pixels is not None:
        size = dict(processor.image_processor.size)
        processor.image_processor.size = {**size, "longest_edge": loading.image_max_pixels * family.image_frames}
    if family.limit_videos is not None:
        reads = assembled.model.of_transformers.config.get_text_config().max_position_embeddings
        family.limit_videos(processor, loading.video_max_pixels, reads)
    frames: FramesAs = "images" if family.video is as_images else "video"
    written = frames if family.processor_writes_videos else None
    return ProcessorReference(assembled, processor, frames=written, precise=precise, writes_answers=False)
