"""Builds tiny, random twins of transformers' models, which are written as checkpoints and read by the real loader."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForImageTextToText, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled
from medtune.models.nano.twin import Twin
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.loading import pretrained, skeleton, taken_fields
from medtune.models.weights.hub import refuse_revision
from medtune.models.weights.loading_options import DEFAULT, Loading

INITIALIZER_RANGE = 0.2
"""Standard deviation of random weights.

With the default of 0.02, the outputs of a tiny model would differ so little that parity tests could hardly find an
error.
"""


class Nano(NamedTuple):
    """A configuration and a processor that fit each other.

    Attributes:
        config: The configuration of the twin's model.
        processor: The processor.
    """

    config: PreTrainedConfig
    processor: Any


def nano_entry(title: str, family: str, build: Callable[[], Nano], twin: Twin) -> ZooEntry:
    """Returns the zoo entry of a tiny twin.

    Args:
        title: One line on the model.
        family: Name of the family.
        build: Returns the twin's configuration and processor.
        twin: Facts about the model for tests.
    """

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        if loading.weights is not None:
            return pretrained(loading.weights, find_family(family), loading)
        refuse_revision(None, loading.revision)
        with tempfile.TemporaryDirectory() as folder:
            write_nano(build(), Path(folder), seed=seed)
            assembled = pretrained(folder, find_family(family), loading)
        assembled.provenance.update(dict.fromkeys(assembled.provenance, f"random (seed {seed})"))
        return assembled

    return ZooEntry(
        title,
        "Apache-2.0",
        assemble,
        lambda _=DEFAULT: skeleton(build().config, find_family(family)),
        family=family,
        twin=twin,
        takes=taken_fields(find_family(family)),
    )


def write_nano(nano: Nano, folder: Path, *, seed: int) -> None:
    """Writes random weights, the configuration and the processor as a checkpoint into a folder."""
    torch.manual_seed(seed)
    model = AutoModelForImageTextToText.from_config(nano.config, trust_remote_code=False)
    with torch.no_grad():
        for parameter in model.parameters():
            # Parameters that begin at zero get random values too, because a gate of zero would hide the image.
            if not parameter.any():
                parameter.normal_(std=INITIALIZER_RANGE)
    # Under torch.distributed, transformers writes only on rank 0. Each rank needs its own twin's folder.
    model.should_save_on_this_rank = lambda is_main_process: True
    model.save_pretrained(folder)
    nano.processor.save_pretrained(folder)


def byte_tokenizer(
    special: Sequence[str], *, bos: str | None, eos: str, pad: str, **more: str
) -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token for each byte, and the control tokens of a family behind these 256.

    Args:
        special: The control tokens.
        bos: The token that opens a sequence; None for none.
        eos: The token that ends a sequence.
        pad: The padding token.
        **more: Further named tokens, e.g. the image token.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    roles = {} if bos is None else {"bos_token": bos}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=eos, pad_token=pad, extra_special_tokens=more, **roles
    )


def text_config(tokenizer: PreTrainedTokenizerFast, **more: object) -> dict[str, Any]:
    """Returns the settings of a twin's language model: two layers of width 32; `more` adds or replaces settings."""
    sizes = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "initializer_range": INITIALIZER_RANGE,
    }  # fmt: skip
    return {**sizes, **more}


def clip_config(**more: object) -> dict[str, Any]:
    """Returns the settings of a twin's CLIP or SigLIP tower: two layers of width 32, 2 x 2 patches of 14 pixels.

    `more` adds or replaces settings.
    """
    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": 28, "patch_size": 14,
    }  # fmt: skip
    return {**sizes, **more}


def token_id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    """Returns the id of one token."""
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found
