"""Builds a model over volumes from its parts: tower, projector, language model, sequence family and preparation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.data.catalog import nearest
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.models.sequence.context_limit import ContextLimited
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
