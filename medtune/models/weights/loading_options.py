"""The settings of a recipe for the weights of a model and for the form of its media. This module loads no torch."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from annotated_types import Interval

from medtune.data.bounds import LARGEST
from medtune.data.types import VolumesAs

DtypeName = Literal["float32", "bfloat16"]
Thinking = Literal["off", "on", "keep"]
Reader = Literal["family", "generic"]
LEAST_IMAGE_PIXELS = 56 * 56
"""The smallest image, in pixels, that is allowed: two by two visual tokens of Qwen2.5-VL."""
ManyPixels = Annotated[int, Interval(ge=LEAST_IMAGE_PIXELS, le=LARGEST)]

ASKED = "asked"
"""What `crop_organs` holds for the organs that a question is about."""
BLIND = "none"
"""The name in `vision` under which questions are asked without their media, of models of text alone."""
CODES = "codes"
"""The variant that shows a model the code ids of its own tower. The tower has to be frozen, as it gets no gradient."""
OF_VOLUMES = ("volumes_as", "crop_organs", "crop_margin_mm")
"""The fields that a model of images and videos takes for volumes."""
_NO_VIDEOS = "takes no videos"
_WHY = {
    "model.image_max_pixels": "scales every image to its own size",
    "model.video_frames": _NO_VIDEOS,
    "model.video_frames_per_s": _NO_VIDEOS,
    "model.volumes_as": f"{_NO_VIDEOS}, and a volume is shown as so many frames; choose another model.name",
}
"""Why a model refuses a field, where this is not plain from the field's meaning."""


@dataclass(frozen=True, slots=True)
class Loading:
    """The fields of a recipe's block `model` by which a zoo entry assembles the model; `ModelBlock` adds the others.

    Attributes:
        weights: Hub id or local folder of pretrained weights that replace the model's own; None takes the model's own.
        revision: Branch, tag or commit of the hub's repository, for weights and model.language; None takes the main
            branch. Only a commit always gives the same files; the outputs name it in any case.
        dtype: Number format that the pretrained weights are read in. bfloat16 takes half the host's memory while they
            are loaded, and goes with the precision bf16-mixed; the tower and the projector of a release over volumes
            are read in float32. On the device, weights that do not learn are stored as
            train.precision says, and adapters and all else that learns are float32.
        adapter: Hub id or local folder of a LoRA adapter in PEFT's format, which was trained on these weights. It is
            merged into them in float32 before anything else: the zero-shot evaluation is that of the adapter's model,
            and training goes on with new adapters, as `tuning` says. None starts without an adapter.
        image_max_pixels: Number of pixels to which larger images are scaled down, where a model takes any size; None
            takes the limit of the model's own processor.
        video_max_pixels: Number of pixels to which each larger frame of a video is scaled down, where a model takes any
            size (Qwen-VL); None takes the vendor's limit of 768 visual tokens for each pair of frames. All frames
            together never take more than 0.9 of the model's context, as in the vendor's code.
        video_frames: Largest number of frames of a video that are shown, where a model takes any number; None is 16.
            With model.name parts every clip and volume is shown as exactly so many pictures, and None reads images
            alone.
        video_frames_per_s: Number of frames of each second that are shown; None spreads them over the whole clip.
        variant: Name of the input's preparation, where a model has several: that of the paper or of the public code,
            or codes (ct_chat), which shows the code ids of the model's own tower and needs the tower frozen; organs,
            m3d, merlin or ct_chat where model.name is parts and its tower reads voxels. None takes the first.
        volumes_as: Form in which a model of images and videos is shown a CT: slices is MedGemma's (up to 85 axial
            slices in three windows), video is DeepTumorVQA's (up to 150 grey frames), and slice is one grey slice, the
            middle one; video_frames lowers the number. None leaves such a model without volumes.
        vision: Name of a tower, where a model is put together from parts (parts, pocket_ct): timm:ENCODER is any image
            encoder of timm for images, clips (video_frames) and volumes (volumes_as), and none is a blind run, which
            shows the language model no media, both in parts alone; the others read voxels. None takes the model's own.
        projector: Name of a projector, where a model is put together from parts; None takes the model's own.
        language: Hub id or local folder of any causal language model of transformers, where a model is put together
            from parts; None takes the model's own.
        crop_organs: Organs around which a volume is cropped, by the names of their masks; [asked] is those that a
            question is about. None shows slices of the whole scan (volumes_as); the nn_ models take asked.
        crop_margin_mm: Margin around these organs, in mm; None is 20.
        system_prompt: Text of the system turn that opens every conversation of ct_chat; the empty text leaves the turn
            out. None takes the published text where the folder of the weights holds it (conversation.py), else no turn.
        thinking: Whether replies begin with a thought, where the chat template opens one or has a switch for it. off
            asks behind an empty thought, and learns the answer alone; on lets the model think, is for evaluation alone
            and needs a large eval.max_new_tokens; keep takes the template as it is, whose empty thought is then learnt.
        time_sentence: The words that llava_video_7b_qwen2 reads behind a video, with {seconds}, {frames} and {times} in
            place of the clip's length, the number of its frames and their times. None takes the published words where
            the folder of the weights holds them (README.md), else medtune's own.
        reader: With model.name auto, a hub id or a folder: family reads a checkpoint by the family of its architecture
            where there is one, and generic by its own processor and forward in any case.
    """

    weights: str | None = None
    revision: str | None = None
    adapter: str | None = None
    dtype: DtypeName = "float32"
    image_max_pixels: ManyPixels | None = None
    video_max_pixels: ManyPixels | None = None
    video_frames: Annotated[int, Interval(ge=1, le=100_000)] | None = None
    video_frames_per_s: Annotated[float, Interval(gt=0, le=1000)] | None = None
    variant: str | None = None
    volumes_as: VolumesAs | None = None
    vision: str | None = None
    projector: str | None = None
    language: str | None = None
    crop_organs: tuple[str, ...] | None = None
    crop_margin_mm: Annotated[float, Interval(ge=0, le=10_000)] | None = None
    system_prompt: str | None = None
    thinking: Thinking = "off"
    time_sentence: str | None = None
    reader: Reader = "family"


DEFAULT = Loading()


def set_fields(loading: Loading) -> list[str]:
    """Returns the names of the recipe's fields that differ from their defaults, e.g. ["model.weights"]."""
    names = [field.name for field in fields(Loading)]
    return [f"model.{name}" for name in names if getattr(loading, name) != getattr(DEFAULT, name)]


def refuse_loading(loading: Loading, *, takes: Collection[str], name: str) -> None:
    """Refuses the settings that a model does not take; no weights are needed to know that."""
    wrong = [field for field in set_fields(loading) if field.removeprefix("model.") not in takes]
    if wrong:
        taken = ", ".join(f"model.{field.name}" for field in fields(Loading) if field.name in takes) or "no such field"
        why = "".join(f" It {_WHY[field]}." for field in dict.fromkeys(wrong) if field in _WHY)
        raise ValueError(
            f"{name} does not take {', '.join(wrong)}; leave it out.{why} The model takes {taken}; model.weights may "
            "always name a folder that `medtune export` wrote"
        )
