"""A model over volumes from its parts: tower, projector, language model, layout and preparation.

Shape legend: C channels; the other axes are the tower's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.data.types import Volume
from medtune.data.volumes.transform import VolumeTransform
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.vlm import VisionLanguageModel


@dataclass(frozen=True, slots=True)
class VolumeParts:
    """How a model over volumes is built.

    Attributes:
        vision: Builds the tower; it gives a grid of features, (B, ..., D).
        projector: Builds what maps that grid to tokens of the language model's width.
        language: Configuration of a decoder that transformers knows.
        family: Lays out one question, given the tokenizer.
    """

    vision: Callable[[], nn.Module]
    projector: Callable[[int], nn.Module]
    language: PreTrainedConfig
    family: Callable[[PreTrainedTokenizerFast], SequenceFamily]
    transform: VolumeTransform


@dataclass(frozen=True, slots=True)
class VolumeInput:
    """A preparation of `data` as the tower's input; runs in the processes that load data."""

    prepare: VolumeTransform

    def __call__(self, volume: Volume) -> Tensor:
        """Returns one prepared volume, (C, ...), float32."""
        return torch.from_numpy(np.ascontiguousarray(self.prepare(volume)))

    def stack(self, media: Sequence[Tensor]) -> Tensor:
        """Returns prepared volumes as one batch."""
        return torch.stack(list(media))


def modules(parts: VolumeParts) -> VisionLanguageModel:
    """Returns the model with random weights, drawn from torch's generator."""
    vision = parts.vision()
    projector = parts.projector(int(parts.language.hidden_size))
    return VisionLanguageModel(vision, projector, AutoModelForCausalLM.from_config(parts.language))


def skeleton(parts: VolumeParts) -> VisionLanguageModel:
    """Returns the same modules on the meta device: no memory, no weights."""
    with torch.device("meta"):
        return modules(parts)
