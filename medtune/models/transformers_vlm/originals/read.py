"""Tells folders in their authors' own layout from others, and fills transformers' own model from their tensors."""

from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from torch import Tensor
from transformers import AutoModelForMultimodalLM, PreTrainedModel

from medtune.models.sequence.end_tokens import read_generation
from medtune.models.transformers_vlm.originals.internvl import internvl
from medtune.models.transformers_vlm.originals.layout import HF, Original, refuse
from medtune.models.transformers_vlm.originals.llava import LLAVA_TOWER, llava
from medtune.models.transformers_vlm.originals.phi4 import phi4
from medtune.models.weights.hub import SMALL_FILES, checkpoint_folder, kept_folder
from medtune.models.weights.key_map import (
    KeyMap,
    Stored,
    at_hand,
    check_published,
    load_published,
    open_checkpoint,
    translate,
)
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.releases.release_folder import weight_files
from medtune.models.weights.tokenizer import read_json

FILES = ("model*.safetensors", "*.safetensors", "pytorch_model*.bin")
_HEAD = "lm_head.weight"


def original_in(folder: Path) -> Original | None:
    """Returns the description of a folder in its authors' own layout; None for any other folder."""
    path = folder / "config.json"
    if not path.is_file():
        return None
    try:
        said = read_json(path)
    except ValueError:
        # transformers says what is wrong with the file.
        return None
    if isinstance(said.get("llm_config"), dict) and isinstance(said.get("vision_config"), dict):
        return internvl(folder, said) if said.get("model_type") == "internvl_chat" else None
    if said.get("model_type") in ("phi4mm", "phi4_multimodal"):
        return phi4(folder, said)
    if said.get("mm_vision_tower"):
        return llava(folder, said)
    # VILA, Video-LLaVA and others have LLaVA's type and towers of their own.
    if str(said.get("model_type")).startswith("llava") and not isinstance(said.get("vision_config"), dict):
        raise refuse(folder, "mm_vision_tower", None, HF)
    return None


def is_original(where: str, revision: str | None) -> bool:
    """Returns whether transformers' class for questions about images does not read a folder or a kept repository.

    It is in its authors' own layout, or holds a model that speaks, of which a part is read.
    """
    folder = kept_folder(where, revision)
    if folder is None or original_in(folder) is not None:
        return folder is not None
    path = folder / "config.json"
    return path.is_file() and "thinker_config" in read_json(path)


def read_original(original: Original, folder: Path, loading: Loading, *, attention: str | None) -> PreTrainedModel:
    stored = _stored(original, folder)
    # The weights take no memory until they are read. Buffers are built at once, because some of them (the rotary
    # angles) are computed and not stored in the files.
    with init_empty_weights(include_buffers=False):
        how: dict[str, Any] = {} if attention is None else {"attn_implementation": attention}
        whole: PreTrainedModel = AutoModelForMultimodalLM.from_config(original.config, trust_remote_code=False, **how)
    fill(whole, stored, original.key_map, folder, loading)
    return whole


def fill(whole: PreTrainedModel, stored: Stored, key_map: KeyMap, folder: Path, loading: Loading) -> None:
    """Fills a model on the meta device from published tensors, and reads its settings for generation."""
    check_published(whole, stored.outline, key_map, where=str(folder))
    types = dict.fromkeys(("model", "lm_head"), getattr(torch, loading.dtype))
    load_published(whole, stored.tensors, key_map, where=str(folder), dtypes=types)
    whole.tie_weights()
    whole.generation_config = read_generation(folder) or whole.generation_config
    whole.eval()


def original_tensors(folder: Path) -> dict[str, Tensor] | None:
    """Returns the tensors of such a folder under the names of the model here; None for any other folder."""
    original = original_in(folder)
    if original is None:
        return None
    named = translate(_stored(original, folder).tensors, original.key_map, where=str(folder))
    return {f"whole.{name}": read() for name, read in named.items()}


def _stored(original: Original, folder: Path) -> Stored:
    stored = open_checkpoint(weight_files(folder, FILES, original.key_map.checkpoint))
    if original.tower is not None and not any(name.startswith(LLAVA_TOWER) for name in stored.outline):
        where = checkpoint_folder(original.tower, what="vision tower", files=(*SMALL_FILES, *FILES))
        eyes = open_checkpoint(weight_files(where, FILES, f"the vision tower {original.tower}"))
        stored = Stored(
            stored.outline | {f"{LLAVA_TOWER}{name}": each for name, each in eyes.outline.items()},
            {**stored.tensors, **{f"{LLAVA_TOWER}{name}": read for name, read in eyes.tensors.items()}},
        )
    tensors = original.parted(stored.tensors)
    # Meta tensors are cut as the values will be.
    outline = {name: read() for name, read in original.parted(at_hand(stored.outline)).items()}
    heads = [name for name in outline if name.endswith(_HEAD) or name.endswith("output.weight")]
    words = [name for name in outline if name.endswith("embed_tokens.weight") or name.endswith("tok_embeddings.weight")]
    if not heads and words and original.config.tie_word_embeddings:
        head = "language_model.lm_head.weight" if words[0].startswith("language_model.") else _HEAD
        return Stored(outline | {head: outline[words[0]]}, {**tensors, head: tensors[words[0]]})
    return Stored(outline, tensors)
