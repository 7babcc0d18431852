"""pocket_ct: any small 3D tower and projector with SmolLM2-135M-Instruct, trainable on a laptop CPU."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.pocket import smollm2
from medtune.models.pocket.volumes import pocket_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return pocket_entry(
        "pocket_ct",
        "A small 3D tower and projector of one's choice (untrained) + SmolLM2-135M-Instruct",
        load=smollm2.load,
        architecture=smollm2.architecture,
    )
