"""radfm: RadFM, a 3D ViT with a perceiver resampler on LLaMA-13B; needs its weights in a local folder."""

from __future__ import annotations

from dataclasses import replace

from transformers import LlamaConfig

from medtune.data.media.volumes.transforms import radfm as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.sequence.radfm import RadFM
from medtune.models.towers.radfm_vit import RadFMViT
from medtune.models.volumes.radfm_input import RadFMInput
from medtune.models.volumes.volume_parts import VolumeParts
from medtune.models.weights.keymaps import radfm as keys
from medtune.models.weights.releases.volume_release import Release, release_entry

RELEASE = Release(
    ("pytorch_model.bin",), keys.KEY_MAP, "lang_model.model.embed_tokens.weight", tokenizer=("Language_files",)
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    # The hub has the checkpoint only as a zip archive in several parts.
    return release_entry(
        "RadFM: 3D ViT + perceiver resampler (32 tokens) + LLaMA-13B",
        "not stated",
        {"paper": parts(), "public": replace(parts(), transform=preparation.PUBLIC)},
        RELEASE,
        hub=None,
    )


def parts() -> VolumeParts:
    """Returns the parts at full size, with the paper's volume of 256 x 256 x 64.

    Source: chaoyi-wu/RadFM@9efba84c, Quick_demo/Language_files/config.json; Touvron et al. 2023, arXiv 2302.13971.
    """
    return VolumeParts(
        vision=RadFMViT,
        projector=lambda width: PerceiverProjector(PerceiverConfig(), width),
        language=LlamaConfig(
            vocab_size=32000,
            hidden_size=5120,
            intermediate_size=13824,
            num_hidden_layers=40,
            num_attention_heads=40,
            max_position_embeddings=2048,
            rms_norm_eps=1e-6,
        ),
        family=RadFM,
        transform=preparation.PAPER,
        seen_as=lambda transform, _: RadFMInput(transform),
    )
