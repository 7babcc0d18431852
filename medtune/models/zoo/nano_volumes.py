"""The tiny, random twins of the models over volumes, only for tests; they read the full-size volumes."""

from dataclasses import replace

from transformers import PreTrainedConfig

from medtune.data.media.volumes.transforms import ct_chat as ct_chat_input
from medtune.data.media.volumes.transforms import m3d as m3d_input
from medtune.data.media.volumes.transforms import merlin as merlin_input
from medtune.data.media.volumes.transforms import radfm as radfm_input
from medtune.models.assemble import ZooEntry
from medtune.models.nano.volume import llama, nano_entry, phi3
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.linear import linear
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.sequence.volumes import M3D, CTChat, Merlin, RadFM
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.radfm_vit import RadFMViT, RadFMViTConfig
from medtune.models.towers.vit3d import M3DViT, M3DViTConfig
from medtune.models.volumes.ctvit_code_input import as_codes
from medtune.models.volumes.organ_cropped import cropped
from medtune.models.volumes.volume_parts import RadFMInput, VolumeParts
from medtune.models.weights.loading_options import CODES

CT_CHAT_TOWER = CTViTConfig(
    (40, 80, 80), 16, spatial_depth=1, temporal_depth=1, heads=2, head_width=8, mlp_width=21, codes=64
)
CT_CHAT_POOL = CoCaConfig(width=16, heads=2, queries=8)
M3D_TOWER = M3DViTConfig(patch=(8, 64, 64), width=24, mlp_width=32, depth=1, heads=2)
MERLIN_TOWER = MerlinResNetConfig(layers=(1, 1, 1, 1), planes=(2, 4, 4, 8), pooled=True)
RADFM_TOWER = RadFMViTConfig(width=24, depth=1, heads=2, head_width=8, mlp_width=32)
RADFM_RESAMPLER = PerceiverConfig(width=24, depth=1, heads=2, head_width=8, latents=4)


def nano_ct_chat() -> ZooEntry:
    """nano_ct_chat: CT-CHAT's random, tiny twin, only for tests; it reads the full-size volume."""
    parts = VolumeParts(
        vision=lambda: CTViT(CT_CHAT_TOWER),
        projector=lambda width: CoCaProjector(CT_CHAT_POOL, width),
        language=llama(),
        template=lambda tokenizer: CTChat(tokenizer, num_media_tokens=CT_CHAT_POOL.queries),
        transform=ct_chat_input.ENCODE,
    )
    # The paper's volume of 300 x 300 x 600 voxels splits into other patches.
    paper = replace(
        parts, vision=lambda: CTViT(replace(CT_CHAT_TOWER, patch=(40, 60, 60))), transform=ct_chat_input.PAPER
    )
    variants = {"public": parts, "paper": paper, CODES: as_codes(parts)}
    return nano_entry("Random CT-CHAT of width 16 and 32; for tests", parts, variants)


def nano_m3d_llama2() -> ZooEntry:
    """nano_m3d_llama2: M3D-LaMed's random, tiny twin on LLaMA, only for tests; it reads the full-size volume."""
    return _m3d("LLaMA", m3d_parts(llama()))


def nano_m3d_phi3() -> ZooEntry:
    """nano_m3d_phi3: M3D-LaMed's random, tiny twin on Phi-3, only for tests; it reads the full-size volume."""
    return _m3d("Phi-3", m3d_parts(phi3()))


def _m3d(language: str, parts: VolumeParts) -> ZooEntry:
    variants = {"slices8": parts, "hu_minmax": replace(parts, transform=m3d_input.HU_MINMAX)}
    return nano_entry(f"Random M3D-LaMed of width 24 and 32 on {language}; for tests", parts, variants)


def m3d_parts(language: PreTrainedConfig) -> VolumeParts:
    """Returns the parts: the preparation of M3D with a tiny tower, projector and language model."""
    return VolumeParts(
        vision=lambda: M3DViT(M3D_TOWER),
        projector=lambda width: SpatialPoolProjector(M3D_TOWER.width, width),
        language=language,
        template=lambda tokenizer: M3D(tokenizer, num_media_tokens=8),
        transform=m3d_input.SLICES8,
    )


def nano_merlin() -> ZooEntry:
    """nano_merlin: Merlin's random, tiny twin, only for tests; it reads the full-size volume."""
    parts = VolumeParts(
        vision=lambda: MerlinResNet(MERLIN_TOWER),
        projector=lambda width: linear(MERLIN_TOWER.width, width),
        language=llama(),
        template=lambda tokenizer: Merlin(tokenizer, num_media_tokens=1),
        transform=merlin_input.PUBLIC,
    )
    return nano_entry("Random Merlin of width 32; for tests", parts, {"pooled": parts})


def nano_radfm() -> ZooEntry:
    """nano_radfm: RadFM's random, tiny twin, only for tests; it reads the full-size volume."""
    parts = VolumeParts(
        vision=lambda: RadFMViT(RADFM_TOWER),
        projector=lambda width: PerceiverProjector(RADFM_RESAMPLER, width),
        language=llama(),
        template=lambda tokenizer: RadFM(tokenizer, tokens_per_scan=RADFM_RESAMPLER.num_tokens),
        transform=radfm_input.PAPER,
        seen_as=lambda transform, _: RadFMInput(transform),
    )
    variants = {"paper": parts, "public": replace(parts, transform=radfm_input.PUBLIC)}
    return nano_entry("Random RadFM of width 24 and 32; for tests", parts, variants)


def nano_nn_ct_chat() -> ZooEntry:
    """nano_nn_ct_chat: nn_ct_chat's random, tiny twin, only for tests."""
    return cropped("nano_ct_chat")


def nano_nn_m3d_llama2() -> ZooEntry:
    """nano_nn_m3d_llama2: nn_m3d_llama2's random, tiny twin, only for tests."""
    return cropped("nano_m3d_llama2")


def nano_nn_m3d_phi3() -> ZooEntry:
    """nano_nn_m3d_phi3: nn_m3d_phi3's random, tiny twin, only for tests."""
    return cropped("nano_m3d_phi3")


def nano_nn_merlin() -> ZooEntry:
    """nano_nn_merlin: nn_merlin's random, tiny twin, only for tests."""
    return cropped("nano_merlin")


def nano_nn_radfm() -> ZooEntry:
    """nano_nn_radfm: nn_radfm's random, tiny twin, only for tests."""
    return cropped("nano_radfm")
