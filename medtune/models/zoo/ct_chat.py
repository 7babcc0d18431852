"""ct_chat: CT-CHAT, CTViT codes with attentional pooling on Llama-3.1-8B; needs its weights in a local folder."""

from __future__ import annotations

from dataclasses import replace

from transformers import LlamaConfig

from medtune.data.media.volumes.transforms import ct_chat as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.sequence.ct_chat import ADDED_TOKENS, CTChat
from medtune.models.towers.ctvit import CTViT
from medtune.models.volumes.ctvit_code_input import as_codes
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.volumes.volume_parts import VolumeParts, chosen, skeleton
from medtune.models.weights.loading_options import CODES, DEFAULT, Loading
from medtune.models.weights.releases.ct_chat_release import (
    LANGUAGE_FOLDER,
    PROJECTOR_FILE,
    assemble_ct_chat,
    read_ct_chat_tower,
)

_LLAMA_ROWS = 128256


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return ZooEntry(
        "CT-CHAT: CTViT codes + attentional pooling (256 tokens) + Llama-3.1-8B-Instruct",
        "CC-BY-NC-SA-4.0; Llama 3.1 Community License",
        lambda seed, loading=DEFAULT: assemble_ct_chat(chosen(variants(), loading.variant), loading),
        lambda _=DEFAULT: skeleton(parts()),
        files=(PROJECTOR_FILE,),
        folder=f"CT-CLIP_v2.pt, {PROJECTOR_FILE} and, in {LANGUAGE_FOLDER}, Llama-3.1-8B-Instruct with its tokenizer",
        variants=variants(),
        volume_input=_volume_input,
        takes=("weights", "dtype", "variant", "system_prompt"),
        one_question=True,
    )


def _volume_input(_: int, loading: Loading) -> VolumeInput:
    parts = chosen(variants(), loading.variant)
    return parts.input_of(lambda: read_ct_chat_tower(parts, loading))


def variants() -> dict[str, VolumeParts]:
    """Returns the parts by the name of the input's preparation.

    "public" is the release's volume of 480 x 480 x 240 voxels, "paper" is the paper's of 300 x 300 x 600, and "codes"
    stands for the code ids of the release's volume.
    """
    return {
        "public": parts(),
        "paper": replace(parts(), transform=preparation.PAPER),
        CODES: as_codes(parts()),
    }


def parts() -> VolumeParts:
    """Returns the parts at full size, with the release's volume of 480 x 480 x 240.

    Source: ibrahimethemhamamci/CT-CHAT@33c9b973; Grattafiori et al. 2024, arXiv 2407.21783.
    """
    return VolumeParts(
        vision=CTViT,
        projector=lambda width: CoCaProjector(CoCaConfig(), width),
        language=LlamaConfig(
            vocab_size=_LLAMA_ROWS + len(ADDED_TOKENS),
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            max_position_embeddings=131072,
            rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        family=CTChat,
        transform=preparation.ENCODE,
    )
