"""nn_ct_chat: CT-CHAT on a crop around target organs."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.volumes.organ_cropped import cropped


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return cropped("ct_chat")
