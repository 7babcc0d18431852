"""nano_pocket_video: pocket_video's random, tiny twin, only for tests."""

from __future__ import annotations

import torch

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled
from medtune.models.nano import pocket
from medtune.models.nano.pocket import byte_tokenizer
from medtune.models.nano.twin import Twin
from medtune.models.projectors.clip_mixer import ClipMixer
from medtune.models.sequence.chatml import ChatML
from medtune.models.sequence.context_limit import ContextLimited
from medtune.models.towers.video_tower import ClipTower, ClipTransform
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import DEFAULT, Loading

GRID = 4
NUM_FRAMES = 4
NUM_TOKENS = 8

TWIN = Twin(
    vision=("vision.frame.backbone.3",),
    projector=("projector.{reduce.1,reduce.4,mix}",),
    language=(
        "language.model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "language.model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("projector.{reduce.0,reduce.1,reduce.4,mix}.{weight,bias}",),
    video=True,
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return ZooEntry(
        title="Random convolutions on 4 frames + clip-mixing projector + random Llama of width 32; for tests",
        licence="Apache-2.0",
        assemble=_assemble,
        skeleton=_skeleton,
        twin=TWIN,
    )


def _modules(vocabulary: int) -> VisionLanguageModel:
    vision, language = ClipTower(pocket.tower(grid=GRID)), pocket.language(vocabulary)
    projector = ClipMixer(
        pocket.FEATURE_WIDTH,
        num_frames=NUM_FRAMES,
        num_cells=GRID * GRID,
        reduced_width=16,
        frame_width=16,
        num_tokens=NUM_TOKENS,
        embedding_width=pocket.HIDDEN,
    )
    return VisionLanguageModel(vision, projector, language)


def _assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
    tokenizer = byte_tokenizer()
    torch.manual_seed(seed)
    return Assembled(
        model=_modules(len(tokenizer)),
        family=ContextLimited(ChatML(tokenizer, num_media_tokens=NUM_TOKENS), max_tokens=pocket.CONTEXT),
        transform=ClipTransform(pocket.TRANSFORM, NUM_FRAMES),
        provenance=dict.fromkeys(("vision", "projector", "language"), f"random (seed {seed})"),
    )


def _skeleton(_: Loading = DEFAULT, /) -> VisionLanguageModel:
    with torch.device("meta"):
        return _modules(len(byte_tokenizer()))
