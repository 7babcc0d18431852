"""parts: any image encoder of timm or 3D tower, any projector, and any causal language model; images, video and CT."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.parts.entry import OwnParts, parts_entry
from medtune.models.pocket import smollm2


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return parts_entry(
        "parts",
        "Any image encoder of timm or 3D tower, any projector (untrained) and any causal language model",
        OwnParts("timm:efficientnet_lite0", "mlp", smollm2.load, smollm2.architecture),
    )
