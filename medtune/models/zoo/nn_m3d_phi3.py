"""nn_m3d_phi3: M3D-LaMed on Phi-3, which sees a crop around target organs instead of the whole scan."""

from __future__ import annotations

from medtune.models.assemble import ZooEntry
from medtune.models.volumes.organ_cropped import cropped


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return cropped("m3d_phi3")
