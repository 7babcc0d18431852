"""Images through a processor: one item of tensors per image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import PIL.Image
import torch

from medtune.data.types import Image
from medtune.models.transformers_vlm.wiring import Pixels


@dataclass(frozen=True, slots=True)
class ProcessorTransform:
    """An image processor of transformers, with the sizes and the normalisation of its checkpoint.

    Attributes:
        image_processor: As the checkpoint's preprocessor_config.json says.
        names: What the tower takes; the rest of the processor's output is left out.
        settings: What the whole processor tells its image processor: InternVL's is cut into tiles only by that.
    """

    image_processor: Any
    names: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, image: Image) -> Pixels:
        """Returns the tower's arguments for one image.

        Raises:
            ValueError: The processor refuses the image, for instance as too narrow.
        """
        height, width = image.pixels_HWC.shape[:2]
        # As a picture, not an array: the channel axis of a picture of 3 x 3 pixels cannot be guessed.
        picture = PIL.Image.fromarray(image.pixels_HWC)
        try:
            made = self.image_processor(images=[picture], return_tensors="pt", **self.settings)
        except ValueError as error:
            raise ValueError(f"an image of {width} x {height} pixels does not suit the model: {error}") from error
        return {name: torch.as_tensor(made[name]) for name in self.names}

    def stack(self, media: Sequence[Pixels]) -> Sequence[Pixels]:
        """Returns the images one by one; the tower joins what it can."""
        return tuple(media)
