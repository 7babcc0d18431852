"""Builds tiny, random twins of transformers' models, which are written as checkpoints and read by the real loader."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import CONFIG_MAPPING, AutoModelForMultimodalLM, PreTrainedConfig, PreTrainedTokenizerFast

from medtune.models.assemble import ZooEntry
from medtune.models.contract import PARTS, Assembled
from medtune.models.nano import token_id
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.loading import pretrained, skeleton, taken_fields
from medtune.models.weights.hub import refuse_revision
from medtune.models.weights.loading_options import DEFAULT, Loading

Config = TypeVar("Config", bound=PreTrainedConfig)
INITIALIZER_RANGE = 0.2
"""Standard deviation of random weights.

With the default of 0.02, the outputs of a tiny model would differ so little that parity tests could hardly find an
error.
"""
_TOWER = {
    "hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 32, "num_hidden_layers": 2, "depth": 2,
    "num_attention_heads": 2, "num_heads": 2, "image_size": 28, "patch_size": 14,
    "initializer_range": INITIALIZER_RANGE,
}  # fmt: skip
"""The small sizes of towers, by every name that their configurations have for them."""


class Nano(NamedTuple):
    """A configuration and a processor that fit each other."""

    config: PreTrainedConfig  # The configuration of the twin's model.
    processor: Any


def nano_entry(title: str, family: str, build: Callable[[], Nano]) -> ZooEntry:
    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        if loading.weights is not None:
            return pretrained(loading.weights, find_family(family), loading)
        refuse_revision(None, loading.revision)
        with tempfile.TemporaryDirectory() as folder:
            write_nano(build(), Path(folder), seed=seed)
            assembled = pretrained(folder, find_family(family), loading)
        assembled.provenance.update(dict.fromkeys(PARTS, f"random (seed {seed})"))
        return assembled

    return ZooEntry(
        title,
        "Apache-2.0",
        assemble,
        lambda _=DEFAULT: skeleton(build().config, find_family(family)),
        family=family,
        twin=True,
        takes=taken_fields(find_family(family)),
    )


def write_nano(nano: Nano, folder: Path, *, seed: int) -> None:
    """Writes random weights, the configuration and the processor as a checkpoint into a folder."""
    torch.manual_seed(seed)
    model = AutoModelForMultimodalLM.from_config(nano.config, trust_remote_code=False)
    with torch.no_grad():
        for parameter in model.parameters():
            # Parameters that begin at zero get random values too, because a gate of zero would hide the image.
            if not parameter.any():
                parameter.normal_(std=INITIALIZER_RANGE)
    # Under torch.distributed, transformers writes only on rank 0. Each rank needs its own twin's folder.
    model.should_save_on_this_rank = lambda is_main_process: True
    model.save_pretrained(folder)
    nano.processor.save_pretrained(folder)


def shrunk(
    config: Callable[..., Config],
    tokenizer: PreTrainedTokenizerFast,
    *,
    text: Mapping[str, object],
    vision: Mapping[str, object],
    tokens: Mapping[str, str],
    **more: object,
) -> Config:
    """Returns a configuration at a twin's size: two layers of width 32 in the language model and in the tower.

    Args:
        config: The class of the model's configuration.
        text: Settings of the language model, beside the small sizes or in their place.
        vision: Settings of the tower, likewise. Of the small sizes it gets those that its class has.
        tokens: The control token of each field of the configuration that holds the id of one.
        **more: Further fields of the configuration.
    """
    named = vision.get("model_type")
    whole: Any = config()
    known = (whole.vision_config if named is None else CONFIG_MAPPING[str(named)]()).to_dict()
    return config(
        text_config=text_config(tokenizer, **text),
        vision_config={**{name: size for name, size in _TOWER.items() if name in known}, **vision},
        **{field: token_id(tokenizer, token) for field, token in tokens.items()},
        **more,
    )


def text_config(tokenizer: PreTrainedTokenizerFast, **more: object) -> dict[str, Any]:
    """Returns the settings of a twin's language model: two layers of width 32; `more` adds or replaces settings."""
    sizes = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "initializer_range": INITIALIZER_RANGE,
    }  # fmt: skip
    return {**sizes, **more}
