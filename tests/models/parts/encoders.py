"""Writes tiny image encoders with random weights as folders in timm's format, for `timm:local-dir:FOLDER`."""

from dataclasses import dataclass, field
from pathlib import Path

import timm
import torch
from timm.models import save_for_hf

SIZE_PX = 32


@dataclass(frozen=True)
class Kind:
    """An architecture of timm with small sizes.

    Attributes:
        architecture: Its name in timm.
        sizes: Its settings.
        before: Number of tokens before the grid.
    """

    architecture: str
    sizes: dict[str, object] = field(hash=False)
    before: int = 0


VIT = Kind(
    "vit_tiny_patch16_224",
    {"img_size": SIZE_PX, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4, "reg_tokens": 2},
    before=3,
)
CONVNEXT = Kind("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 48), "patch_size": 1})


def write_encoder(folder: Path, kind: Kind) -> str:
    """Writes an encoder that reads 32 x 32 pixels and returns the value of model.vision that names it."""
    torch.manual_seed(0)
    encoder = timm.create_model(kind.architecture, num_classes=5, **kind.sizes)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(std=0.2)
    encoder.pretrained_cfg = {
        **encoder.pretrained_cfg,
        "input_size": (3, SIZE_PX, SIZE_PX),
        "num_classes": 5,
        "crop_pct": 0.9,
    }
    save_for_hf(encoder, str(folder), model_args=dict(kind.sizes), safe_serialization=True)
    return f"timm:local-dir:{folder}"
