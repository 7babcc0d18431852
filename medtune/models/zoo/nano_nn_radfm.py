"""nano_nn_radfm: nn_radfm's random, tiny twin, only for tests."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.volumes.organ_cropped import cropped


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return cropped("nano_radfm")
