"""Builds a model over volumes from its parts, and turns a volume into its tower's input.

RadFM takes volumes, and images as scans of four equal slices, which may share a batch.

Shape legend: C channels, H height, W width, D depth; other axes are the tower's own.

Source: chaoyi-wu/RadFM@9efba84c, src/Dataset/dataset and src/datasampler.py, read for facts. The published code
also crops images at random, even at test time; that is left out here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import PIL.Image
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.data.catalog import nearest
from medtune.data.media.load import Shape
from medtune.data.media.masks import other_side
from medtune.data.media.volumes.cache import Entry, VolumeCache
from medtune.data.media.volumes.geometry import Grid
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.radfm import DEPTHS, IN_PLANE, nearest_depth
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.types import Image, Media, MediaKind, MediaRef, Volume, require_kind
from medtune.models.sequence.builder import Template
from medtune.models.sequence.end_tokens import ContextLimited
from medtune.models.vlm import VisionLanguageModel

TowerWithWeights = Callable[[], nn.Module]
"""A function that returns a model's tower with its weights."""


@dataclass(frozen=True, slots=True)
class VolumeInput:
    """Prepares volumes with one of `data`'s transforms; runs in the processes that load data."""

    prepare: VolumeTransform
    cache: VolumeCache | None = None  # Folder that keeps prepared volumes; None prepares them every time.
    kinds: ClassVar[tuple[MediaKind, ...]] = ("volume",)
    sampling: ClassVar[None] = None

    def shape(self, ref: MediaRef) -> Shape | None:
        return None

    def __call__(self, media: Media) -> Tensor:
        """Returns one prepared volume, (C, ...), float32."""
        return torch.from_numpy(np.ascontiguousarray(self.prepare(require_kind(media, Volume))))

    def read(self, ref: MediaRef) -> Tensor:
        """Returns one prepared volume from its files or from the cache, with the masks that the preparation reads."""
        if self.cache is None:
            return self(load_volume(ref, self.prepare.organs))
        return torch.from_numpy(self.cache.transformed(ref, self.prepare))

    def entry(self, ref: MediaRef, cache: VolumeCache) -> Entry:
        """Returns the entry of one volume in a cache, which `read` makes where it is missing."""
        return cache.entry(ref, self.prepare)

    @property
    def kept_as(self) -> str:
        """What an entry holds, in words."""
        return self.prepare.kept_as

    def most_bytes(self, grid: Grid) -> int:
        return self.prepare.most_bytes(grid)

    def changed(self, ref: MediaRef, change: Callable[[Media], Media]) -> Tensor:
        """Returns one volume that is read from its files, changed and then prepared.

        The cache is not used, because training draws a new change each time.
        """
        organs = self.prepare.organs
        # A mirrored volume needs the mask of the other side's organ.
        return self(change(load_volume(ref, {*organs, *map(other_side, organs)})))

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(items))


def _as_volume(transform: VolumeTransform, _: TowerWithWeights) -> VolumeInput:
    return VolumeInput(transform)


@dataclass(frozen=True, slots=True)
class VolumeParts:
    """The parts from which a model over volumes is built."""

    vision: Callable[[], nn.Module]  # Returns the tower, which maps volumes to a grid of features (B, ..., D).
    # Returns the projector for an embedding width, which maps that grid to tokens.
    projector: Callable[[int], nn.Module]
    language: PreTrainedConfig
    template: Callable[[PreTrainedTokenizerFast], Template]
    transform: VolumeTransform
    # Returns the model's transform, given the preparation and the tower, which is asked for only where the transform
    # depends on its weights.
    seen_as: Callable[[VolumeTransform, TowerWithWeights], VolumeInput] = _as_volume

    def input_of(self, tower: TowerWithWeights) -> VolumeInput:
        """Returns the transform that makes a media item the input of the tower."""
        return self.seen_as(self.transform, tower)

    def limited(self, tokenizer: PreTrainedTokenizerFast) -> ContextLimited:
        """Returns the template, which refuses sequences that are longer than the language model's context."""
        return ContextLimited(self.template(tokenizer), max_tokens=int(self.language.max_position_embeddings))


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

    kinds: ClassVar[tuple[MediaKind, ...]] = ("image", "volume")

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
