"""The models that medtune knows nothing of beforehand: any checkpoint, and any model on a server."""

from medtune.models.assemble import CheckpointEntry, ServedEntry
from medtune.models.transformers_vlm.generic.loading import checkpoint_entry


def auto() -> CheckpointEntry:
    """auto: any vision-language model of transformers; model.weights names its hub id or its folder."""
    return CheckpointEntry(
        "Any vision-language model of transformers, by its hub id or folder", "that of the checkpoint", checkpoint_entry
    )


def endpoint() -> ServedEntry:
    """endpoint: any model on an OpenAI-compatible server, which model.endpoint names; for evaluation only."""
    return ServedEntry("a model behind an OpenAI-compatible endpoint", "the provider's terms of use")
