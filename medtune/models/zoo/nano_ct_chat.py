"""nano_ct_chat: CT-CHAT's random, tiny twin, for tests alone; it reads the full-size volume."""

from __future__ import annotations

from medtune.data.media.volumes.transforms import ct_chat as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.nano import volume
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.sequence.ct_chat import CTChat
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.volumes.code_input import as_codes
from medtune.models.volumes.vlm import VolumeParts
from medtune.models.weights.loading_options import CODES

TOWER = CTViTConfig((40, 80, 80), 16, spatial_depth=1, temporal_depth=1, heads=2, head_width=8, mlp_width=21, codes=64)
POOL = CoCaConfig(width=16, heads=2, queries=8)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    variants = {"public": parts(), CODES: as_codes(parts())}
    return volume.nano_entry("Random CT-CHAT of width 16 and 32; for tests", parts(), variants)


def parts() -> VolumeParts:
    """Returns the parts: CT-CHAT's preparation, everything else small."""
    return VolumeParts(
        vision=lambda: CTViT(TOWER),
        projector=lambda width: CoCaProjector(POOL, width),
        language=volume.llama(),
        family=lambda tokenizer: CTChat(tokenizer, num_media_tokens=POOL.queries),
        transform=preparation.ENCODE,
    )
