"""m3d_llama2: M3D-LaMed on Llama-2-7B-chat, a 3D ViT with spatial pooling to 256 tokens."""

from __future__ import annotations

from dataclasses import replace

from transformers import LlamaConfig

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
        "M3D-LaMed: MONAI ViT + spatial pooling (256 tokens) + Llama-2-7B-chat",
        "Llama 2 Community License",
        {"slices8": parts(), "hu_minmax": replace(parts(), transform=preparation.HU_MINMAX)},
        RELEASE,
        hub="GoodBaiBai88/M3D-LaMed-Llama-2-7B",
    )


def parts() -> VolumeParts:
    """Returns the parts at full size.

    The release adds four tokens to Llama 2's 32000.

    Source: BAAI-DCAI/M3D@63e72005; Touvron et al. 2023, arXiv 2307.09288.
    """
    return VolumeParts(
        vision=M3DViT,
        projector=lambda width: SpatialPoolProjector(M3DViTConfig().width, width),
        language=LlamaConfig(
            vocab_size=32004,
            hidden_size=4096,
            intermediate_size=11008,
            num_hidden_layers=32,
            num_attention_heads=32,
            max_position_embeddings=4096,
            rms_norm_eps=1e-5,
        ),
        family=M3D,
        transform=preparation.SLICES8,
    )
