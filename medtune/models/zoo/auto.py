"""auto: any vision-language model of transformers; model.weights names its hub id or its folder."""

from __future__ import annotations

from medtune.models.assemble import CheckpointEntry
from medtune.models.transformers_vlm.generic.loading import checkpoint_entry


def entry() -> CheckpointEntry:
    """Returns the entry of all checkpoints."""
    return CheckpointEntry(
        "Any vision-language model of transformers, by its hub id or folder",
        "that of the checkpoint",
        checkpoint_entry,
    )
