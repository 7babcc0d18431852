"""nano_ct_chat: CT-CHAT's random, tiny twin, only for tests; it reads the full-size volume."""

from __future__ import annotations

from medtune.data.media.volumes.transforms import ct_chat as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.nano import volume
from medtune.models.nano.twin import Twin
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.sequence.ct_chat import CTChat
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.volumes.ctvit_code_input import as_codes
from medtune.models.volumes.volume_parts import VolumeParts
from medtune.models.weights.loading_options import CODES

TOWER = CTViTConfig((40, 80, 80), 16, spatial_depth=1, temporal_depth=1, heads=2, head_width=8, mlp_width=21, codes=64)
POOL = CoCaConfig(width=16, heads=2, queries=8)

TWIN = Twin(
    vision=(
        "vision.patch_embedding.1",
        "vision.position_bias.net.{0,2,4}",
        "vision.{spatial,temporal}.layers.0.attention.to_{q,kv,out}",
        "vision.{spatial,temporal}.layers.0.mlp.to_{hidden,out}",
    ),
    projector=("projector.mlp.{0,2}",),
    language=(
        "language.model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "language.model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=(
        "projector.pool.query_QD",
        "projector.pool.attention.{in_proj_weight,out_proj.weight}",
        "projector.pool.norm_{query,features}.{weight,bias}",
        "projector.norm.{weight,bias}",
        "projector.mlp.{0,2}.{weight,bias}",
    ),
    volume=(1, 80, 160, 160),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    variants = {"public": parts(), CODES: as_codes(parts())}
    return volume.nano_entry("Random CT-CHAT of width 16 and 32; for tests", parts(), TWIN, variants)


def parts() -> VolumeParts:
    """Returns the parts: the preparation of CT-CHAT with a tiny tower, projector and language model."""
    return VolumeParts(
        vision=lambda: CTViT(TOWER),
        projector=lambda width: CoCaProjector(POOL, width),
        language=volume.llama(),
        family=lambda tokenizer: CTChat(tokenizer, num_media_tokens=POOL.queries),
        transform=preparation.ENCODE,
    )
