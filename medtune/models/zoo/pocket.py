"""pocket: EfficientNet-Lite0 and SmolLM2-135M-Instruct, a real VLM that trains on a laptop CPU."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from medtune.models import efficientnet_lite0, smollm2
from medtune.models.assemble import ZooEntry
from medtune.models.loading_plan import DEFAULT, Loading, refuse_loading
from medtune.models.projectors.grid_mixer import GridMixer
from medtune.models.sequence.chatml import ChatML
from medtune.models.vlm import Assembled, VisionLanguageModel

GRID = 4
SIZE_PX = 256
NUM_TOKENS = 8
REDUCED_WIDTH = 128


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return ZooEntry(
        title="EfficientNet-Lite0 (ImageNet) + grid-mixing projector (untrained) + SmolLM2-135M-Instruct",
        licence="Apache-2.0",
        assemble=_assemble,
        skeleton=_skeleton,
    )


def _assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
    refuse_loading(loading, name="pocket")
    vision, vision_provenance = efficientnet_lite0.load(grid=GRID)
    language = smollm2.load()
    torch.manual_seed(seed)
    projector = _projector(language.model.config.hidden_size)
    return Assembled(
        model=VisionLanguageModel(vision, projector, language.model),
        family=ChatML(language.tokenizer, num_media_tokens=NUM_TOKENS),
        transform=efficientnet_lite0.transform(SIZE_PX),
        provenance={
            "vision": vision_provenance,
            "projector": f"random (seed {seed}); untrained at zero-shot",
            "language": language.provenance,
        },
    )


def _projector(embedding_width: int) -> GridMixer:
    return GridMixer(
        efficientnet_lite0.FEATURE_WIDTH,
        num_cells=GRID * GRID,
        reduced_width=REDUCED_WIDTH,
        num_tokens=NUM_TOKENS,
        embedding_width=embedding_width,
    )


def _skeleton() -> VisionLanguageModel:
    config = smollm2.architecture()
    with torch.device("meta"):
        return VisionLanguageModel(
            efficientnet_lite0.tower(grid=GRID),
            _projector(config.hidden_size),
            LlamaForCausalLM(config),
        )
