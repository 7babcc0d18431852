"""Builds a model over volumes from its parts: tower, projector, language model, sequence family and preparation.

Prepares the input of RadFM: volumes, and images as scans of four equal slices, which may share a batch.

Shape legend: C channels, H height, W width, D depth.

Source: chaoyi-wu/RadFM@9efba84c, src/Dataset/dataset and src/datasampler.py, as our specs describe them. The published
code also crops images at random, even at test time; that is left out here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.data.catalog import nearest
from medtune.data.media.volumes.transforms.radfm import DEPTHS, IN_PLANE, nearest_depth
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.types import Image, Media, MediaKind
from medtune.models.sequence.end_tokens import ContextLimited
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.volume_input import VolumeInput

TowerWithWeights = Callable[[], nn.Module]
"""A function that returns a model's tower with its weights."""


def _as_volume(transform: VolumeTransform, _: TowerWithWeights) -> VolumeInput:
    return VolumeInput(transform)


@dataclass(frozen=True, slots=True)
class VolumeParts:
    """The parts from which a model over volumes is built.

    Attributes:
        vision: Returns the tower, which maps volumes to a grid of features (B, ..., D).
        projector: Returns the projector for an embedding width, which maps that grid to tokens.
        language: Configuration of a language model of transformers.
        family: Returns the sequence family for a tokenizer.
        transform: The preparation of a volume.
        seen_as: Returns the model's transform, given the preparation and the tower, which is asked for only where the
            transform depends on its weights.
    """

    vision: Callable[[], nn.Module]
    projector: Callable[[int], nn.Module]
    language: PreTrainedConfig
    family: Callable[[PreTrainedTokenizerFast], SequenceFamily]
    transform: VolumeTransform
    seen_as: Callable[[VolumeTransform, TowerWithWeights], VolumeInput] = _as_volume

    def input_of(self, tower: TowerWithWeights) -> VolumeInput:
        """Returns the transform that makes a media item the input of the tower."""
        return self.seen_as(self.transform, tower)

    def limited(self, tokenizer: PreTrainedTokenizerFast) -> ContextLimited:
        """Returns the sequence family, which refuses sequences that are longer than the language model's context."""
        return ContextLimited(self.family(tokenizer), max_tokens=int(self.language.max_position_embeddings))


def chosen(variants: Mapping[str, VolumeParts], name: str | None) -> VolumeParts:
    """Returns the variant of that name, the first one for None."""
    if name is None:
        return next(iter(variants.values()))
    if name not in variants:
        raise ValueError(f"model.variant: no {name!r}.{nearest(name, variants)} There are: {', '.join(variants)}")
    return variants[name]


def modules(parts: VolumeParts) -> VisionLanguageModel:
    """Returns the model with random weights, drawn from torch's generator."""
    vision = parts.vision()
    projector = parts.projector(int(parts.language.hidden_size))
    return VisionLanguageModel(
        vision, projector, AutoModelForCausalLM.from_config(parts.language, trust_remote_code=False)
    )


def skeleton(parts: VolumeParts) -> VisionLanguageModel:
    """Returns the model on the meta device, without weights, so that it takes no memory."""
    with torch.device("meta"):
        return modules(parts)


@dataclass(frozen=True, slots=True)
class RadFMInput(VolumeInput):
    """Prepares volumes with a transform, and images as in RadFM: 512 x 512 pixels, RGB in [0, 1], four equal slices."""

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        return ("image", "volume")

    def __call__(self, media: Media) -> Tensor:
        """Returns one scan, (3, H, W, D), float32."""
        if not isinstance(media, Image):
            return VolumeInput.__call__(self, media)
        resized = PIL.Image.fromarray(media.pixels_HWC).resize((IN_PLANE, IN_PLANE), PIL.Image.Resampling.BICUBIC)
        pixels_CHW = torch.from_numpy(np.asarray(resized, dtype=np.float32) / 255.0).permute(2, 0, 1)
        return pixels_CHW.unsqueeze(-1).repeat(1, 1, 1, DEPTHS[0])

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        """Returns scans as one batch.

        Scans of different sizes are scaled to 512 x 512 pixels and to the allowed depth nearest to the deepest scan's.
        """
        if len({item.shape for item in items}) == 1:
            return torch.stack(list(items))
        depth = nearest_depth(max(item.shape[-1] for item in items))
        size = (IN_PLANE, IN_PLANE, depth)
        return torch.cat([torch.nn.functional.interpolate(item[None], size, mode="nearest") for item in items])
