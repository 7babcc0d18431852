"""nano_m3d_phi3: M3D-LaMed's random, tiny twin on Phi-3, only for tests; it reads the full-size volume."""

from __future__ import annotations

from medtune.data.media.volumes.transforms import m3d as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.nano import volume
from medtune.models.nano.twin import Twin
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.sequence.m3d import M3D
from medtune.models.towers.m3d_vit import M3DViT, M3DViTConfig
from medtune.models.volumes.volume_parts import VolumeParts

TOWER = M3DViTConfig(patch=(8, 64, 64), width=24, mlp_width=32, depth=1, heads=2)
NUM_TOKENS = 8

TWIN = Twin(
    vision=(
        "vision.vit.patch_embedding.patch_embeddings.1",
        "vision.vit.blocks.0.{attn.qkv,attn.out_proj,mlp.linear1,mlp.linear2}",
    ),
    projector=("projector.mlp.{0,2}",),
    language=(
        "language.model.layers.{0,1}.self_attn.{qkv,o}_proj",
        "language.model.layers.{0,1}.mlp.{gate_up,down}_proj",
    ),
    projector_weights=("projector.mlp.{0,2}.{weight,bias}",),
    volume=(1, 32, 256, 256),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return volume.nano_entry("Random M3D-LaMed of width 24 and 32 on Phi-3; for tests", parts(), TWIN)


def parts() -> VolumeParts:
    """Returns the parts: the preparation of M3D with a tiny tower, projector and language model."""
    return VolumeParts(
        vision=lambda: M3DViT(TOWER),
        projector=lambda width: SpatialPoolProjector(TOWER.width, width),
        language=volume.phi3(),
        family=lambda tokenizer: M3D(tokenizer, num_media_tokens=NUM_TOKENS),
        transform=preparation.SLICES8,
    )
