"""Loads a language model of transformers and its tokenizer from a local folder or the hub."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from medtune.models.pocket.smollm2 import LanguageModel
from medtune.models.sharding.of_transformers import as_if_loaded, loaded_type
from medtune.models.sharding.unread import weights_stay_unread
from medtune.models.weights.hub import folder_name
from medtune.models.weights.loading_options import DtypeName
from medtune.models.weights.releases.release_folder import release_folder
from medtune.models.weights.tokenizer import read_tokenizer, refuse_own_code


def load_language(where: str, *, dtype: DtypeName = "float32", revision: str | None = None) -> LanguageModel:
    """Returns the language model of a local folder, or of a repository on the hub."""
    folder = release_folder(where, "model.language", revision=revision)
    model = read_language(folder, dtype=dtype)
    return LanguageModel(model, read_tokenizer(folder), folder_name(folder))


def read_language(folder: Path, *, dtype: DtypeName = "float32") -> PreTrainedModel:
    """Returns the causal language model in a folder."""
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=loaded_type(folder, dtype)
        )
    except (OSError, ValueError) as error:
        refuse_own_code(folder, str(folder), error)
        raise ValueError(f"{folder}: no language model that transformers can read: {error}") from error
    if weights_stay_unread():
        as_if_loaded(model, getattr(torch, dtype), AutoModelForCausalLM)
    return model


def context_of(config: PreTrainedConfig) -> int:
    """Returns the number of tokens that a language model can read: its context, or its sliding window if shorter."""
    found = [getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window")]
    limits = [int(limit) for limit in found if limit]
    if not limits:
        raise ValueError("model.language: its config.json says neither max_position_embeddings nor sliding_window")
    return min(limits)
