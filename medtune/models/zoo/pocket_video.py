"""pocket_video: EfficientNet-Lite0 on eight frames and SmolLM2-135M-Instruct, trainable on a laptop CPU."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.pocket import efficientnet_lite0
from medtune.models.pocket.images import pocket_entry
from medtune.models.projectors.clip_mixer import ClipMixer
from medtune.models.towers.video_tower import ClipTower, ClipTransform

GRID = 4
SIZE_PX = 128
NUM_FRAMES = 8
NUM_TOKENS = 8
REDUCED_WIDTH = 48
FRAME_WIDTH = 256


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return pocket_entry(
        "pocket_video",
        "EfficientNet-Lite0 (ImageNet) on 8 frames + clip-mixing projector (untrained) + SmolLM2-135M-Instruct",
        grid=GRID,
        num_tokens=NUM_TOKENS,
        vision=ClipTower,
        projector=_projector,
        transform=ClipTransform(efficientnet_lite0.transform(SIZE_PX), NUM_FRAMES),
    )


def _projector(embedding_width: int) -> ClipMixer:
    return ClipMixer(
        efficientnet_lite0.FEATURE_WIDTH,
        num_frames=NUM_FRAMES,
        num_cells=GRID * GRID,
        reduced_width=REDUCED_WIDTH,
        frame_width=FRAME_WIDTH,
        num_tokens=NUM_TOKENS,
        embedding_width=embedding_width,
    )
