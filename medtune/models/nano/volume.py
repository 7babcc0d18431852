"""Builds tiny, random twins of the models over volumes: full-size input, a tiny tower and a tiny language model."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, Phi3Config, PreTrainedTokenizerFast

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled
from medtune.models.nano import byte_tokenizer
from medtune.models.sequence.volumes import ADDED_TOKENS, END_HEAD, END_TURN, HEAD, OPEN
from medtune.models.volumes.volume_parts import VolumeInput, VolumeParts, chosen, modules, skeleton
from medtune.models.weights.loading_options import DEFAULT, Loading

HIDDEN = 32
_BOS, _EOS = "<s>", "</s>"
_SPECIAL = (_BOS, _EOS, OPEN, HEAD, END_HEAD, END_TURN, *ADDED_TOKENS)
_SIZES: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    # With the default of 0.02, the outputs of a tiny model would differ so little that parity tests could hardly find
    # an error.
    "initializer_range": 0.2,
}


def tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token for each byte and the control tokens of all four families."""
    return byte_tokenizer(_SPECIAL, bos=_BOS, eos=_EOS, pad=_EOS)


def llama() -> LlamaConfig:
    """Returns the configuration of a LLaMA with two layers."""
    return LlamaConfig(vocab_size=len(tokenizer()), **_SIZES)


def phi3() -> Phi3Config:
    """Returns the configuration of a Phi-3 with two layers."""
    return Phi3Config(vocab_size=len(tokenizer()), pad_token_id=0, bos_token_id=None, eos_token_id=None, **_SIZES)


def nano_entry(title: str, parts: VolumeParts, variants: Mapping[str, VolumeParts] | None = None) -> ZooEntry:
    """Returns the zoo entry of a tiny twin with random weights."""

    def seen_by(loading: Loading) -> VolumeParts:
        return chosen(variants, loading.variant) if variants else parts

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        seen = seen_by(loading)
        torch.manual_seed(seed)
        model = modules(seen)
        model.language.to(getattr(torch, loading.dtype))
        return Assembled(
            model=model,
            template=seen.limited(tokenizer()),
            transform=seen.input_of(lambda: model.vision),
            provenance=dict.fromkeys(("vision", "projector", "language"), f"random (seed {seed})"),
        )

    def volume_input(seed: int, loading: Loading) -> VolumeInput:
        seen = seen_by(loading)

        def tower() -> nn.Module:
            torch.manual_seed(seed)
            return seen.vision()

        return seen.input_of(tower)

    return ZooEntry(
        title,
        "Apache-2.0",
        assemble,
        lambda loading=DEFAULT: skeleton(seen_by(loading)),
        variants=variants or {},
        volume_input=volume_input,
        twin=True,
        takes=("dtype", *(["variant"] if variants else [])),
        one_question=True,
    )
