"""nano_radfm: RadFM's random, tiny twin, only for tests; it reads the full-size volume."""

from __future__ import annotations

from medtune.data.media.volumes.transforms import radfm as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.nano import volume
from medtune.models.nano.twin import Twin
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.sequence.radfm import RadFM
from medtune.models.towers.radfm_vit import RadFMViT, RadFMViTConfig
from medtune.models.volumes.radfm_input import RadFMInput
from medtune.models.volumes.volume_parts import VolumeParts

TOWER = RadFMViTConfig(width=24, depth=1, heads=2, head_width=8, mlp_width=32)
RESAMPLER = PerceiverConfig(width=24, depth=1, heads=2, head_width=8, latents=4)

TWIN = Twin(
    vision=("vision.patch_embedding.1", "vision.blocks.0.{attn.qkv,attn.out_proj,mlp.linear1,mlp.linear2}"),
    projector=(
        "projector.linear",
        "projector.resampler.blocks.0.0.{q,k,v,output}_proj",
        "projector.resampler.blocks.0.1.{fc,c_proj}",
    ),
    language=(
        "language.model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "language.model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=(
        "projector.{tags,resampler.latents}",
        "projector.linear.{weight,bias}",
        "projector.resampler.layer_norm.{weight,bias}",
        "projector.resampler.blocks.0.0.{q,k,v,output}_proj.weight",
        "projector.resampler.blocks.0.0.{context,latents}_layer_norm.{weight,bias}",
        "projector.resampler.blocks.0.1.{fc,c_proj}.weight",
        "projector.resampler.blocks.0.1.ln.{weight,bias}",
    ),
    volume=(3, 64, 64, 8),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return volume.nano_entry("Random RadFM of width 24 and 32; for tests", parts(), TWIN)


def parts() -> VolumeParts:
    """Returns the parts: RadFM's patches and preparation, with a tiny tower, projector and language model."""
    return VolumeParts(
        vision=lambda: RadFMViT(TOWER),
        projector=lambda width: PerceiverProjector(RESAMPLER, width),
        language=volume.llama(),
        family=lambda tokenizer: RadFM(tokenizer, tokens_per_scan=RESAMPLER.num_tokens),
        transform=preparation.PAPER,
        seen_as=lambda transform, _: RadFMInput(transform),
    )
