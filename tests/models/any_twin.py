"""Every tiny twin with something small to look at: a picture, or a volume of its tower's kind."""

from __future__ import annotations

from typing import Any

import torch

from medtune.models.contract import Assembled
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from tests.models.transformers_vlm.twins import NANOS, encoded, picture, size_of

# Smaller than the models' own volumes, where the tower takes other sizes.
VOLUMES = {
    "nano_radfm": (3, 64, 64, 8),
    "nano_m3d_llama2": (1, 32, 256, 256),
    "nano_m3d_phi3": (1, 32, 256, 256),
    "nano_merlin": (1, 64, 64, 32),
    "nano_ct_chat": (1, 80, 160, 160),
}
EVERY_TWIN = ("nano_pocket", *NANOS, *VOLUMES)


def seen(assembled: Assembled, name: str, *, seed: int = 0) -> Any:
    """Returns one encoded media item."""
    if name not in VOLUMES:
        return encoded(assembled, picture(seed))
    volume: Any = torch.rand((1, *VOLUMES[name]), generator=torch.Generator().manual_seed(seed))
    return assembled.model.encode(volume)


def logprobs(assembled: Assembled, name: str, *, seed: int = 0) -> torch.Tensor:
    """Returns the log-probabilities of an answer about that item."""
    shape = None if name in VOLUMES else size_of(picture(seed))
    rows = _rows(assembled, assembled.family.layout("Plane?", "head", shape=shape))
    device = next(assembled.model.parameters()).device
    read: torch.Tensor = assembled.model(rows.to(device), seen(assembled, name, seed=seed)).logprobs_T
    return read


def _rows(assembled: Assembled, layout: Any) -> PackedRows:
    return pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.family.pad_id)
