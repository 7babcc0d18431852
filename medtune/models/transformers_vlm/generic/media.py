"""Prepares images for any checkpoint with its own processor, and separates what belongs to the image from the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import PIL.Image
import torch
from torch import Tensor

from medtune.data.media.load import Shape, media_shape
from medtune.data.types import Image, Media, MediaKind, MediaRef, require_kind
from medtune.models.transformers_vlm.generic.conversation import Asked, Conversations, as_image
from medtune.models.transformers_vlm.wiring import Pixels

_TEXT = ("input_ids", "attention_mask", "labels")
"""The processor's outputs that medtune has of its own."""
_PROBES = ("Which?", "Which of these answers is right?")
_PROBE = (64, 48)


class Outputs(NamedTuple):
    """The outputs of a checkpoint's processor for a conversation with an image, by their kind.

    Attributes:
        media: Names of the outputs that belong to the image, whatever the text.
        by_token: For each output that says something of every token, besides the ids and the mask: its value for the
            token ids that were seen; it is 0 for all others.
        visual_ids: The token ids that stand for parts of an image.
    """

    media: tuple[str, ...]
    by_token: dict[str, dict[int, int]]
    visual_ids: frozenset[int]


def processor_outputs(conversations: Conversations, processor: Any, config: Any) -> Outputs:
    """Returns the kinds of a processor's outputs, found with two questions of different length about one image.

    Raises:
        ValueError: An output depends on the text in a way that a token's id does not decide, or no token stands for the
            image.
    """
    image = PIL.Image.new("RGB", _PROBE)
    with_image = [conversations.inputs(Asked(text, None, as_image(image))) for text in _PROBES]
    media: list[str] = []
    by_token: dict[str, dict[int, int]] = {}
    for name in with_image[0]:
        if name in _TEXT:
            continue
        values = [made[name] for made in with_image]
        if all(made[name].shape == made["input_ids"].shape for made in with_image):
            by_token[name] = _values_of_ids(name, with_image)
        elif torch.equal(*values):
            media.append(name)
        else:
            raise ValueError(
                f"the processor's output {name} depends on the question, and the generic entry cannot give it for an "
                "answer; this architecture needs a family of its own (CONTRIBUTING.md, `Add a family`)"
            )
    # The model replaces the token that its configuration names. Of the processor's, some may be line breaks.
    named = [_ids(config, "image_token_id", "image_token_index"), _ids(processor, "image_token_id")]
    known = frozenset(getattr(processor, "image_token_ids", None) or ()).union(*named) - {None}
    for values in by_token.values():
        # A larger image may be written with further tokens, which the probes did not show.
        seen = {values[each] for each in known if each in values}
        values.update(dict.fromkeys(known - values.keys(), seen.pop()) if len(seen) == 1 else {})
    shown = frozenset(with_image[0]["input_ids"][0].tolist())
    visual = next((ids for ids in (*named, known) if ids & shown), frozenset[int]())
    if not visual:
        raise ValueError(
            "no token stands for the image: neither the processor nor config.json names an image token "
            "(image_token_id) that the sequence of a question about an image holds"
        )
    return Outputs(tuple(media), by_token, visual)


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
class GenericTransform:
    """Prepares images with the checkpoint's own processor.

    Attributes:
        conversations: Runs the checkpoint's processor.
        names: Names of the processor's outputs that belong to the image.
    """

    conversations: Conversations
    names: tuple[str, ...]

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        """The kinds of media that the transform takes: images."""
        return ("image",)

    @property
    def sampling(self) -> None:
        """Always None, because the transform takes no videos."""
        return None

    def shape(self, ref: MediaRef) -> Shape | None:
        """Returns the size of an image."""
        return media_shape(ref)

    def __call__(self, media: Media) -> Pixels:
        """Returns the processor's outputs for one image.

        Raises:
            ValueError: The processor refuses the image, or the item is no image.
        """
        pixels_HWC = require_kind(media, Image).pixels_HWC
        height, width = pixels_HWC.shape[:2]
        picture = PIL.Image.fromarray(pixels_HWC)
        try:
            made = self.conversations.inputs(Asked(_PROBES[0], None, as_image(picture)))
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"an image of {width} x {height} pixels does not suit the model: {error}") from error
        return {name: made[name] for name in self.names}

    def stack(self, items: Sequence[Pixels]) -> Sequence[Pixels]:
        """Returns the items in a tuple; they may differ in shape."""
        return tuple(items)
