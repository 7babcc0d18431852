"""Models of images and clips that are small enough for a laptop CPU, and their tiny, random twins.

Their projectors mix the feature grid of an image, or of all frames of a clip, into a few tokens.

Shape legend: B images or clips, T frames, C channels, H height, W width, N grid cells, D feature width, R reduced
width, F frame width, K visual tokens, E embedding width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from medtune.data.media.videos.read import video_frames
from medtune.data.types import Image, Media, MediaKind, MediaRef, Sampling, Video, require_kind
from medtune.models import efficientnet_lite0, smollm2
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled, Transform
from medtune.models.nano import pocket as nano
from medtune.models.projectors.vocabulary import NUM_CODES, VocabularyProjector
from medtune.models.sequence.chatml import ChatML
from medtune.models.sequence.end_tokens import ContextLimited
from medtune.models.towers.image_tower import GridTower, ImageTransform
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import DEFAULT, Loading

GRID, NUM_TOKENS = nano.GRID, nano.NUM_TOKENS
NUM_FRAMES, NANO_FRAMES = 8, 4


@dataclass(frozen=True, slots=True)
class ClipTransform:
    """Turns a clip into the input of a tower."""

    image: ImageTransform
    num_frames: int  # Number of frames, which are sampled evenly and include the first and the last.
    kinds: ClassVar[tuple[MediaKind, ...]] = ("video",)

    @property
    def sampling(self) -> Sampling:
        """The rule that chooses the frames: the same number for every clip, however long it is."""
        return Sampling(self.num_frames)

    def shape(self, ref: MediaRef) -> None:
        """Refuses a clip with too few frames; the number of visual tokens is the same for all others."""
        if (count := len(video_frames(ref, self.sampling).times_s)) < self.num_frames:
            raise ValueError(f"{ref.path}: {self._too_short(count)}")

    def _too_short(self, count: int) -> str:
        return f"the clip has {count} frames where the model looks at {self.num_frames}; make it longer"

    def __call__(self, media: Media) -> Tensor:
        """Returns the normalised pixels, float32, (num_frames, 3, size_px, size_px)."""
        frames_THWC = require_kind(media, Video).frames_THWC
        if len(frames_THWC) < self.num_frames:
            raise ValueError(self._too_short(len(frames_THWC)))
        return torch.stack([self.image(Image(frame_HWC)) for frame_HWC in frames_THWC])

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(items))


class ClipTower(nn.Module):
    """An image tower that is applied to each frame of a clip."""

    def __init__(self, frame: GridTower) -> None:
        super().__init__()
        self.frame = frame

    def forward(self, pixels_BTCHW: Tensor) -> Tensor:
        features_XND: Tensor = self.frame(pixels_BTCHW.flatten(0, 1))
        features_BTND: Tensor = features_XND.unflatten(0, pixels_BTCHW.shape[:2])
        return features_BTND


class GridMixer(nn.Module):
    """Reduces each cell of a feature grid, then mixes all cells into a few tokens.

    Each token depends on the whole grid, so that it can say *where* something lies. A projector that works on each cell
    alone leaves that to the attention of the language model, which hardly learns it in the few hundred steps of
    pocket's recipes.
    """

    def __init__(
        self, feature_width: int, *, num_cells: int, reduced_width: int, num_tokens: int, embedding_width: int
    ) -> None:
        super().__init__()
        self.reduce = nn.Sequential(
            nn.LayerNorm(feature_width), nn.Linear(feature_width, reduced_width), nn.GELU(), nn.Flatten()
        )
        self.mix = nn.Linear(num_cells * reduced_width, num_tokens * embedding_width)
        self._num_tokens = num_tokens

    def forward(self, features_BND: Tensor) -> Tensor:
        tokens_BKE: Tensor = self.mix(self.reduce(features_BND)).unflatten(1, (self._num_tokens, -1))
        return tokens_BKE


class ClipMixer(nn.Module):
    """Reduces each frame to one vector, then mixes the vectors of all frames into a few tokens.

    Each place in the sequence of frames has weights of its own, so that a token can say in which order things happened.
    A projector that works on each frame alone leaves that to the attention of the language model (see `GridMixer`).
    """

    def __init__(
        self,
        feature_width: int,
        *,
        num_frames: int,
        num_cells: int,
        reduced_width: int,
        frame_width: int,
        num_tokens: int,
        embedding_width: int,
    ) -> None:
        super().__init__()
        self.reduce = nn.Sequential(
            nn.LayerNorm(feature_width),
            nn.Linear(feature_width, reduced_width),
            nn.GELU(),
            nn.Flatten(start_dim=2),
            nn.Linear(num_cells * reduced_width, frame_width),
            nn.GELU(),
            nn.Flatten(),
        )
        self.mix = nn.Linear(num_frames * frame_width, num_tokens * embedding_width)
        self._num_tokens = num_tokens

    def forward(self, features_BTND: Tensor) -> Tensor:
        tokens_BKE: Tensor = self.mix(self.reduce(features_BTND)).unflatten(1, (self._num_tokens, -1))
        return tokens_BKE


def pocket_entry(
    name: str,
    title: str,
    *,
    vision: Callable[[GridTower], nn.Module],
    projectors: nano.Projectors,
    transform: Transform,
) -> ZooEntry:
    """Returns the zoo entry of a pocket model whose tower is EfficientNet-Lite0.

    Args:
        vision: Returns the model's tower, given that of a single image; for videos, one that is applied to each frame.
        projectors: Returns a projector for an embedding width, with random weights, by the values of `model.projector`.
    """

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        tower, tower_provenance = efficientnet_lite0.load(grid=nano.GRID)
        language = smollm2.load()
        torch.manual_seed(seed)
        untrained = nano.chosen(name, projectors, loading)(language.model.config.hidden_size)
        return Assembled(
            model=VisionLanguageModel(vision(tower), untrained, language.model),
            template=ContextLimited(
                ChatML(language.tokenizer, num_media_tokens=nano.NUM_TOKENS),
                max_tokens=int(language.model.config.max_position_embeddings),
            ),
            transform=transform,
            provenance={
                "vision": tower_provenance,
                "projector": f"random (seed {seed}); untrained at zero-shot",
                "language": language.provenance,
            },
        )

    def skeleton(loading: Loading = DEFAULT, /) -> VisionLanguageModel:
        config, projector = smollm2.architecture(), nano.chosen(name, projectors, loading)
        with torch.device("meta"):
            tower = efficientnet_lite0.tower(grid=nano.GRID)
            return VisionLanguageModel(vision(tower), projector(config.hidden_size), LlamaForCausalLM(config))

    return ZooEntry(title, "Apache-2.0", assemble, skeleton, takes=nano.takes(projectors))


def _over_grid(feature_width: int, *, reduced_width: int) -> nano.Projectors:
    shape = {"num_cells": GRID * GRID, "num_tokens": NUM_TOKENS}
    return {
        None: lambda embedding_width: GridMixer(
            feature_width, reduced_width=reduced_width, embedding_width=embedding_width, **shape
        ),
        "vocabulary": lambda embedding_width: VocabularyProjector(
            feature_width, num_codes=NUM_CODES, embedding_width=embedding_width, **shape
        ),
    }


def pocket() -> ZooEntry:
    """pocket: EfficientNet-Lite0 and SmolLM2-135M-Instruct, a real VLM that can be trained on a laptop CPU."""
    return pocket_entry(
        "pocket",
        "EfficientNet-Lite0 (ImageNet) + untrained projector of the whole grid + SmolLM2-135M-Instruct",
        vision=lambda tower: tower,
        projectors=_over_grid(efficientnet_lite0.FEATURE_WIDTH, reduced_width=128),
        transform=efficientnet_lite0.transform(256),
    )


def nano_pocket() -> ZooEntry:
    """nano_pocket: pocket's random, tiny twin, only for tests."""
    return nano.nano_entry(
        "Random convolutions + a projector of the whole grid + random Llama of width 32; for tests",
        vision=lambda tower: tower,
        projectors=_over_grid(nano.FEATURE_WIDTH, reduced_width=16),
        transform=nano.TRANSFORM,
    )


def pocket_video() -> ZooEntry:
    """pocket_video: EfficientNet-Lite0 on eight frames and SmolLM2-135M-Instruct, trainable on a laptop CPU."""
    return pocket_entry(
        "pocket_video",
        "EfficientNet-Lite0 (ImageNet) on 8 frames + clip-mixing projector (untrained) + SmolLM2-135M-Instruct",
        vision=ClipTower,
        projectors={
            None: lambda embedding_width: ClipMixer(
                efficientnet_lite0.FEATURE_WIDTH,
                num_frames=NUM_FRAMES,
                num_cells=GRID * GRID,
                reduced_width=48,
                frame_width=256,
                num_tokens=NUM_TOKENS,
                embedding_width=embedding_width,
            )
        },
        transform=ClipTransform(efficientnet_lite0.transform(128), NUM_FRAMES),
    )


def nano_pocket_video() -> ZooEntry:
    """nano_pocket_video: pocket_video's random, tiny twin, only for tests."""
    return nano.nano_entry(
        "Random convolutions on 4 frames + clip-mixing projector + random Llama of width 32; for tests",
        vision=ClipTower,
        projectors={
            None: lambda embedding_width: ClipMixer(
                nano.FEATURE_WIDTH,
                num_frames=NANO_FRAMES,
                num_cells=nano.GRID * nano.GRID,
                reduced_width=16,
                frame_width=16,
                num_tokens=nano.NUM_TOKENS,
                embedding_width=embedding_width,
            )
        },
        transform=ClipTransform(nano.TRANSFORM, NANO_FRAMES),
    )
