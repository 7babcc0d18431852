"""ct_chat: CT-CHAT, CTViT codes with attentional pooling on Llama-3.1-8B; needs its weights in a local folder."""

from __future__ import annotations

from dataclasses import replace

from peft import PeftModel
from torch import nn
from transformers import LlamaConfig

from medtune.data.media.volumes.transforms import ct_chat as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.sequence.ct_chat import ADDED_TOKENS, CTChat
from medtune.models.sequence.end_tokens import ended_by
from medtune.models.towers.ctvit import CTViT
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.ctvit_code_input import as_codes
from medtune.models.volumes.volume_parts import VolumeParts, chosen, skeleton
from medtune.models.weights.causal_language import read_language
from medtune.models.weights.keymaps import ct_chat as projector_keys
from medtune.models.weights.keymaps import ct_clip as tower_keys
from medtune.models.weights.keymaps.key_map import load_published
from medtune.models.weights.keymaps.read_file import read_tensors
from medtune.models.weights.loading_options import CODES, DEFAULT, Loading, refuse_loading
from medtune.models.weights.volume_release import read_tokenizer, release_folder

TOWER_FILES = (("CT-CLIP_v2.pt", tower_keys.CT_CLIP), ("clip_visual_encoder.pth", tower_keys.VISUAL_ENCODER))
PROJECTOR_FILE = "non_lora_trainables.bin"
ADAPTER_FILE = "adapter_config.json"
LANGUAGE_FOLDER = "language"
_LLAMA_ROWS = 128256


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return ZooEntry(
        "CT-CHAT: CTViT codes + attentional pooling (256 tokens) + Llama-3.1-8B-Instruct",
        "CC-BY-NC-SA-4.0; Llama 3.1 Community License",
        assemble,
        lambda: skeleton(parts()),
        files=(PROJECTOR_FILE,),
        folder=f"CT-CLIP_v2.pt, {PROJECTOR_FILE} and, in {LANGUAGE_FOLDER}, Llama-3.1-8B-Instruct with its tokenizer",
        variants=variants(),
    )


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


def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
    """Returns CT-CHAT with the weights in a local folder.

    The folder has to hold CT-CLIP_v2.pt or clip_visual_encoder.pth, non_lora_trainables.bin and, in its subfolder
    `language`, Llama-3.1-8B-Instruct with its tokenizer. It may hold an adapter (adapter_config.json beside its
    weights), which is merged into the language model.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged, or is that of another model.
    """
    refuse_loading(replace(loading, weights=None, variant=None), name="ct_chat")
    full = chosen(variants(), loading.variant)
    folder = release_folder(loading.weights, "CT-CHAT")
    language, tokenizer = read_language(folder / LANGUAGE_FOLDER), read_tokenizer(folder / LANGUAGE_FOLDER)
    tokenizer.add_special_tokens({"additional_special_tokens": list(ADDED_TOKENS)})
    language.resize_token_embeddings(len(tokenizer))
    if (folder / ADAPTER_FILE).is_file():
        language = PeftModel.from_pretrained(language, folder).merge_and_unload()
    vision, projector = full.vision(), full.projector(int(language.config.hidden_size))
    tower_file, key_map = next(((f, m) for f, m in TOWER_FILES if (folder / f).is_file()), TOWER_FILES[0])
    for name, module, file, keys in (
        ("vision", vision, tower_file, key_map),
        ("projector", projector, PROJECTOR_FILE, projector_keys.KEY_MAP),
    ):
        path = folder / file
        load_published(nn.ModuleDict({name: module}), read_tensors([path]), keys, where=str(path))
    return Assembled(
        model=VisionLanguageModel(vision, projector, language),
        family=ended_by(full.limited(tokenizer), language.generation_config, tokenizer),
        transform=full.input_of(vision),
        provenance={
            "vision": tower_file,
            "projector": PROJECTOR_FILE,
            "language": f"{LANGUAGE_FOLDER} in {folder.name}",
        },
    )
