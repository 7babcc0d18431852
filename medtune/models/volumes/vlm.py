"""A model over volumes from its parts: tower, projector, language model, layout and preparation.

Shape legend: C channels; the other axes are the tower's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.data.catalog import nearest
from medtune.data.media.load import Shape
from medtune.data.media.organ_masks import other_side
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.types import Media, MediaKind, MediaRef, Volume, require_kind
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.sequence.limited import Limited
from medtune.models.vlm import VisionLanguageModel


@dataclass(frozen=True, slots=True)
class VolumeInput:
    """A preparation of `data` as the tower's input; runs in the processes that load data.

    Attributes:
        cache: Where prepared volumes are kept; None prepares them every time.
    """

    prepare: VolumeTransform
    cache: VolumeCache | None = None

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        """Volumes."""
        return ("volume",)

    @property
    def sampling(self) -> None:
        """None: no videos."""
        return None

    def shape(self, ref: MediaRef) -> Shape | None:
        """Returns None: every volume has as many tokens."""
        return None

    def __call__(self, media: Media) -> Tensor:
        """Returns one prepared volume, (C, ...), float32."""
        return torch.from_numpy(np.ascontiguousarray(self.prepare(require_kind(media, Volume))))

    def read(self, ref: MediaRef) -> Tensor:
        """Returns one prepared volume from its files or from the cache, with the masks that the preparation reads.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: A file is refused.
        """
        if self.cache is None:
            return self(load_volume(ref, self.prepare.organs))
        return torch.from_numpy(self.cache.transformed(ref, self.prepare))

    def changed(self, ref: MediaRef, change: Callable[[Media], Media]) -> Tensor:
        """Returns one volume, changed and then prepared; read from its files, as a change is drawn anew each time.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: A file is refused.
        """
        organs = self.prepare.organs
        # In a mirror, the organ to look at is the other side's.
        return self(change(load_volume(ref, {*organs, *map(other_side, organs)})))

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        """Returns prepared volumes as one batch."""
        return torch.stack(list(items))


def _as_volume(transform: VolumeTransform, _: nn.Module) -> VolumeInput:
    return VolumeInput(transform)


@dataclass(frozen=True, slots=True)
class VolumeParts:
    """How a model over volumes is built.

    Attributes:
        vision: Builds the tower; it gives a grid of features, (B, ..., D).
        projector: Builds what maps that grid to tokens of the language model's width.
        language: Configuration of a decoder that transformers knows.
        family: Lays out one question, given the tokenizer.
        seen_as: Makes a preparation the input of the tower, which it is given too.
    """

    vision: Callable[[], nn.Module]
    projector: Callable[[int], nn.Module]
    language: PreTrainedConfig
    family: Callable[[PreTrainedTokenizerFast], SequenceFamily]
    transform: VolumeTransform
    seen_as: Callable[[VolumeTransform, nn.Module], VolumeInput] = _as_volume

    def input_of(self, vision: nn.Module) -> VolumeInput:
        """Returns how a media item becomes the input of a tower whose weights are read."""
        return self.seen_as(self.transform, vision)

    def limited(self, tokenizer: PreTrainedTokenizerFast) -> Limited:
        """Returns the family, held to the language model's context."""
        return Limited(self.family(tokenizer), max_tokens=int(self.language.max_position_embeddings))


def chosen(variants: Mapping[str, VolumeParts], name: str | None) -> VolumeParts:
    """Returns the variant of that name, the first one for None.

    Raises:
        ValueError: There is no such variant.
    """
    if name is None:
        return next(iter(variants.values()))
    if name not in variants:
        raise ValueError(f"model.variant: no {name!r}.{nearest(name, variants)} There are: {', '.join(variants)}")
    return variants[name]


def modules(parts: VolumeParts) -> VisionLanguageModel:
    """Returns the model with random weights, drawn from torch's generator."""
    vision = parts.vision()
    projector = parts.projector(int(parts.language.hidden_size))
    return VisionLanguageModel(vision, projector, AutoModelForCausalLM.from_config(parts.language))


def skeleton(parts: VolumeParts) -> VisionLanguageModel:
    """Returns the same modules on the meta device: no memory, no weights."""
    with torch.device("meta"):
        return modules(parts)
