"""Loads checkpoints of transformers so that their weights stay in the files.

`from_pretrained` in the type of the file maps the weights and copies nothing. In another type it copies all of them.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from torch import Tensor
from transformers import PreTrainedModel

from medtune.models.sharding.unread import rounded_when_read, weights_stay_unread
from medtune.models.weights.key_map import open_checkpoint


def loaded_type(folder: Path, wanted: str) -> torch.dtype:
    """Returns the type in which `from_pretrained` is to load a checkpoint.

    It is the wanted type, or that of most numbers in the files where weights stay unread.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not weights_stay_unread() or not files:
        found: torch.dtype = getattr(torch, wanted)
        return found
    sizes: Counter[torch.dtype] = Counter()
    for file in files:
        for tensor in open_checkpoint([file]).outline.values():
            if tensor.is_floating_point():
                sizes[tensor.dtype] += tensor.numel()
    return max(sizes, key=sizes.__getitem__)


def as_if_loaded(model: PreTrainedModel, wanted: torch.dtype, kind: Any) -> None:
    """Makes a model that was loaded in the type of its file equal to one that is loaded in the wanted type, in place.

    Its weights get the type when they are read. Buffers are computed while a model is built, some of them in the
    model's type (the scale of Gemma's embeddings), so they are taken from a model that is built in the wanted type.
    """
    for parameter in model.parameters():
        rounded_when_read(parameter, wanted)
    if model.dtype == wanted:
        return
    with init_empty_weights(include_buffers=False):
        twin = kind.from_config(model.config, dtype=wanted, trust_remote_code=False)
    built: dict[str, Tensor] = dict(twin.named_buffers())
    stored = set(model.state_dict())
    for name, buffer in list(model.named_buffers()):
        if buffer.is_floating_point():
            owner, _, last = name.rpartition(".")
            value = buffer.to(built[name].dtype) if name in stored else built[name]
            setattr(model.get_submodule(owner), last, value)
