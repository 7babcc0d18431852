"""pocket_ct: any small 3D tower and projector with SmolLM2-135M-Instruct, trainable on a laptop CPU.

The model sees only a crop around the organ that a question names, because a few hundred training steps hardly teach a
language model where to look.
"""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.parts.entry import OwnParts, parts_entry
from medtune.models.pocket import smollm2


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return parts_entry(
        "pocket_ct",
        "A small 3D tower and projector of one's choice (untrained) + SmolLM2-135M-Instruct",
        OwnParts("resnet3d", "linear", smollm2.load, smollm2.architecture, crops_organs=True),
    )
