"""m3d_phi3: M3D-LaMed on Phi-3-mini-4k, a 3D ViT with spatial pooling to 256 tokens."""

from __future__ import annotations

from dataclasses import replace

from transformers import Phi3Config

from medtune.data.media.volumes.transforms import m3d as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.sequence.m3d import M3D
from medtune.models.towers.m3d_vit import M3DViT, M3DViTConfig
from medtune.models.volumes.volume_parts import VolumeParts
from medtune.models.weights.keymaps import m3d as keys
from medtune.models.weights.releases.volume_release import Release, release_entry

RELEASE = Release(("*.safetensors",), keys.LAMED, "model.embed_tokens.weight")


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return release_entry(
        "M3D-LaMed: MONAI ViT + spatial pooling (256 tokens) + Phi-3-mini-4k-instruct",
        "MIT",
        {"slices8": parts(), "hu_minmax": replace(parts(), transform=preparation.HU_MINMAX)},
        RELEASE,
        hub="GoodBaiBai88/M3D-LaMed-Phi-3-4B",
    )


def parts() -> VolumeParts:
    """Returns the parts at full size; the size of the vocabulary is read from the checkpoint.

    Source: BAAI-DCAI/M3D@63e72005; Abdin et al. 2024, arXiv 2404.14219 (the sizes are transformers' defaults).
    """
    return VolumeParts(
        vision=M3DViT,
        projector=lambda width: SpatialPoolProjector(M3DViTConfig().width, width),
        language=Phi3Config(),
        family=M3D,
        transform=preparation.SLICES8,
    )
