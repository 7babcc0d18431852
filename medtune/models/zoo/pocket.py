"""pocket: EfficientNet-Lite0 and SmolLM2-135M-Instruct, a real VLM that can be trained on a laptop CPU."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.pocket import efficientnet_lite0
from medtune.models.pocket.images import pocket_entry
from medtune.models.projectors.grid_mixer import GridMixer

GRID = 4
SIZE_PX = 256
NUM_TOKENS = 8
REDUCED_WIDTH = 128


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return pocket_entry(
        "pocket",
        "EfficientNet-Lite0 (ImageNet) + grid-mixing projector (untrained) + SmolLM2-135M-Instruct",
        grid=GRID,
        num_tokens=NUM_TOKENS,
        vision=lambda tower: tower,
        projector=_projector,
        transform=efficientnet_lite0.transform(SIZE_PX),
    )


def _projector(embedding_width: int) -> GridMixer:
    return GridMixer(
        efficientnet_lite0.FEATURE_WIDTH,
        num_cells=GRID * GRID,
        reduced_width=REDUCED_WIDTH,
        num_tokens=NUM_TOKENS,
        embedding_width=embedding_width,
    )
