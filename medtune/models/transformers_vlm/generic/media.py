"""Prepares media for any checkpoint with its own processor, and separates what belongs to them from the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import PIL.Image
import torch
from torch import Tensor

from medtune.data.media.volumes.axial_pictures import AxialPictures
from medtune.data.types import Image, Media, Sampling, Video, Volume, require_kind
from medtune.models.transformers_vlm.conversation import Asked, Conversations, Medium, as_image, as_video
from medtune.models.transformers_vlm.family import Pixels
from medtune.models.transformers_vlm.media import PicturesOrVideo

_TEXT = ("input_ids", "attention_mask", "labels")
"""The processor's outputs that medtune has of its own."""
_PROBES = ("Which?", "Which of these answers is right?")
_PROBE = (64, 48)
_TWO_SIZES = ((150, 40), (50, 50))
_IMAGE_TOKENS, _VIDEO_TOKENS = ("image_token_id", "image_token_index"), ("video_token_id", "video_token_index")


class Outputs(NamedTuple):
    """The outputs of a checkpoint's processor for a conversation with an image, by their kind."""

    image: tuple[str, ...]  # Names of the outputs that belong to an image, whatever the text.
    # Names of the outputs that belong to a video; None where the processor or its template takes no videos.
    video: tuple[str, ...] | None
    # For each output that says something of every token, besides the ids and the mask: its value for the token ids that
    # were seen; it is 0 for all others.
    by_token: dict[str, dict[int, int]]
    visual_ids: frozenset[int]  # The token ids that stand for parts of an image.
    # For each output of an image, the axis along which the outputs of several images of a conversation are joined; None
    # where the processor does not join them so, and images are shown alone.
    joins: dict[str, int] | None
    # For each output that belongs to a medium, the axis along which the rows of a batch are joined. An output for which
    # none was found is left out, and rows with it are read one by one.
    axes: dict[str, int]


def processor_outputs(conversations: Conversations, processor: Any, config: Any) -> Outputs:
    """Returns the kinds of a processor's outputs, found with two questions of different length about one image."""
    image = as_image(PIL.Image.new("RGB", _PROBE))
    made = [conversations.inputs(Asked(text, None, (image,))) for text in _PROBES]
    names = _of_media(made)
    axes = _axes_of_rows(conversations, image, names)
    video_names = None
    if video := _tried_video(conversations, processor):
        made += video
        video_names = _of_media(video)
        axes |= _axes_of_rows(conversations, _blank_video(conversations), video_names)
    by_token = {name: _values_of_ids(name, made) for name in made[0] if name not in (*_TEXT, *names)}
    # The model replaces the token that its configuration names. Of the processor's, some may be line breaks.
    named = [_ids(config, *_IMAGE_TOKENS), _ids(processor, "image_token_id")]
    known = frozenset(getattr(processor, "image_token_ids", None) or ()).union(*named) - {None}
    for values in by_token.values():
        # A larger image may be written with further tokens, which the probes did not show.
        seen = {values[each] for each in known if each in values}
        values.update(dict.fromkeys(known - values.keys(), seen.pop()) if len(seen) == 1 else {})
    shown = frozenset(made[0]["input_ids"][0].tolist())
    visual = next((ids for ids in (*named, known) if ids & shown), frozenset[int]())
    if not visual:
        raise ValueError(
            "no token stands for the image: neither the processor nor config.json names an image token "
            "(image_token_id) that the sequence of a question about an image holds"
        )
    frames = _ids(config, *_VIDEO_TOKENS) | _ids(processor, "video_token_id") if video else frozenset[int]()
    return Outputs(names, video_names, by_token, visual | frames, _joins(conversations, names), axes)


def _axes_of_rows(conversations: Conversations, medium: Medium, names: Sequence[str]) -> dict[str, int]:
    asked = Asked(_PROBES[0], None, (medium,))
    one = conversations.inputs(asked)
    try:
        two = conversations.inputs(asked, times=2)
    except (ValueError, RuntimeError, TypeError, IndexError):
        # A processor that takes one conversation at a time is given one.
        return {}
    found = {}
    for name in names:
        axes = [axis for axis in range(one[name].ndim) if torch.equal(torch.cat([one[name]] * 2, dim=axis), two[name])]
        if len(axes) == 1:
            found[name] = axes[0]
    return found


def _joins(conversations: Conversations, names: tuple[str, ...]) -> dict[str, int] | None:
    images = [as_image(PIL.Image.effect_noise(size, 64).convert("RGB")) for size in _TWO_SIZES]
    try:
        both = conversations.inputs(Asked(_PROBES[0], None, tuple(images)))
        each = [conversations.inputs(Asked(_PROBES[0], None, (image,))) for image in images]
    except (ValueError, RuntimeError):
        return None
    found = {}
    for name in names:
        parts = [one[name] for one in each]
        axes = [axis for axis in range(parts[0].dim()) if _is_joined(both.get(name), parts, axis)]
        if not axes:
            return None
        found[name] = axes[0]
    return found


def _is_joined(whole: Tensor | None, parts: Sequence[Tensor], axis: int) -> bool:
    others = [[length for place, length in enumerate(part.shape) if place != axis] for part in parts]
    return whole is not None and others[0] == others[1] and torch.equal(whole, torch.cat(list(parts), dim=axis))


def _of_media(made: Sequence[dict[str, Tensor]]) -> tuple[str, ...]:
    names = []
    for name in made[0]:
        if name in _TEXT or all(each[name].shape == each["input_ids"].shape for each in made):
            continue
        if not torch.equal(*(each[name] for each in made)):
            raise ValueError(
                f"the processor's output {name} depends on the question, and the generic entry cannot give it for an "
                "answer; this architecture needs a family of its own (CONTRIBUTING.md, `Add a family`)"
            )
        names.append(name)
    return tuple(names)


def _tried_video(conversations: Conversations, processor: Any) -> list[dict[str, Tensor]]:
    if getattr(processor, "video_processor", None) is None:
        return []
    asked = [Asked(text, None, (_blank_video(conversations),)) for text in _PROBES]
    if conversations.rendered(asked[0]) == conversations.rendered(Asked(_PROBES[0], None)):
        return []
    return [conversations.inputs(each) for each in asked]


def _blank_video(conversations: Conversations) -> Medium:
    return as_video(conversations.processor, torch.zeros((2, 3, *_PROBE[::-1]), dtype=torch.uint8), (0.0, 1.0))


def _values_of_ids(name: str, made: Sequence[dict[str, Tensor]]) -> dict[int, int]:
    values: dict[int, int] = {}
    for each in made:
        for one, value in zip(each["input_ids"][0].tolist(), each[name][0].tolist(), strict=True):
            if values.setdefault(one, value) != value:
                raise ValueError(
                    f"the processor's output {name} differs for tokens of the same id; this architecture needs a "
                    "family of its own (CONTRIBUTING.md, `Add a family`)"
                )
    return values


def _ids(holder: Any, *names: str) -> frozenset[int]:
    found = [getattr(holder, name, None) for name in names]
    return frozenset(each for each in found if isinstance(each, int))


@dataclass(frozen=True, slots=True)
class GenericTransform(PicturesOrVideo):
    """Prepares media with the checkpoint's own processor."""

    conversations: Conversations  # Runs the checkpoint's processor.
    image: tuple[str, ...]  # Names of the processor's outputs that belong to an image.
    # Names of the processor's outputs that belong to a video; None where the model takes no videos.
    video: tuple[str, ...] | None = None
    frames: Sampling | None = None  # The rule that chooses the frames of a video; None where the model takes no videos.
    # Turns a volume into pictures, which are shown like the frames of a video; None refuses volumes.
    volumes: AxialPictures | None = None

    def __call__(self, media: Media) -> Pixels:
        """Returns the processor's outputs for one image, video or volume."""
        if self.volumes is not None and isinstance(media, Volume):
            media = self.volumes(media)
        if isinstance(media, Video) and self.video is not None:
            frames_TCHW = torch.from_numpy(media.frames_THWC).permute(0, 3, 1, 2)
            shown = as_video(self.conversations.processor, frames_TCHW, media.times_s)
            return self._probed_inputs(shown, self.video, "a video", media.frames_THWC.shape[1:3])
        pixels_HWC = require_kind(media, Image).pixels_HWC
        return self._probed_inputs(
            as_image(PIL.Image.fromarray(pixels_HWC)), self.image, "an image", pixels_HWC.shape[:2]
        )

    def _probed_inputs(self, medium: Medium, names: tuple[str, ...], what: str, size: tuple[int, ...]) -> Pixels:
        try:
            made = self.conversations.inputs(Asked(_PROBES[0], None, (medium,)))
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{what} of {size[1]} x {size[0]} pixels does not suit the model: {error}") from error
        return {name: made[name] for name in names}
