"""Builds the pocket models for images and videos: an ImageNet tower, a projector with random weights, and SmolLM2."""

from collections.abc import Callable

import torch
from torch import nn
from transformers import LlamaForCausalLM

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled, Transform
from medtune.models.pocket import efficientnet_lite0, smollm2
from medtune.models.sequence.chatml import ChatML
from medtune.models.sequence.context_limit import ContextLimited
from medtune.models.towers.image_tower import GridTower
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import DEFAULT, Loading


def pocket_entry(
    name: str,
    title: str,
    *,
    grid: int,
    num_tokens: int,
    vision: Callable[[GridTower], nn.Module],
    projector: Callable[[int], nn.Module],
    transform: Transform,
) -> ZooEntry:
    """Returns the zoo entry of a pocket model whose tower is EfficientNet-Lite0.

    Args:
        name: Name of the model, for messages.
        title: One line on the model.
        grid: Number of features along each side of an image.
        num_tokens: Number of visual tokens of a media item.
        vision: Returns the model's tower, given that of a single image; for videos, one that is applied to each frame.
        projector: Returns the projector for an embedding width, with random weights.
        transform: Turns a media item into the tower's input.
    """

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        tower, tower_provenance = efficientnet_lite0.load(grid=grid)
        language = smollm2.load()
        torch.manual_seed(seed)
        untrained = projector(language.model.config.hidden_size)
        return Assembled(
            model=VisionLanguageModel(vision(tower), untrained, language.model),
            family=ContextLimited(
                ChatML(language.tokenizer, num_media_tokens=num_tokens),
                max_tokens=int(language.model.config.max_position_embeddings),
            ),
            transform=transform,
            provenance={
                "vision": tower_provenance,
                "projector": f"random (seed {seed}); untrained at zero-shot",
                "language": language.provenance,
            },
        )

    def skeleton(_: Loading = DEFAULT, /) -> VisionLanguageModel:
        config = smollm2.architecture()
        with torch.device("meta"):
            tower = efficientnet_lite0.tower(grid=grid)
            return VisionLanguageModel(vision(tower), projector(config.hidden_size), LlamaForCausalLM(config))

    return ZooEntry(title=title, licence="Apache-2.0", assemble=assemble, skeleton=skeleton)
