"""Image encoders of the timm library as towers over one picture or several: `model.vision: timm:ENCODER`.

ENCODER is a name of timm with or without a pretrained tag (vit_small_patch16_dinov3.lvd1689m), a repository of the hub
(hf-hub:OWNER/NAME) or a local folder (local-dir:/path with config.json and model.safetensors). The size, the
normalisation and the interpolation of pictures are those of the encoder's own configuration. Unlike timm's evaluation,
nothing is cropped away: the whole picture is scaled to the encoder's size.

Shape legend: B media items, F pictures of an item, C channels, H height, W width, h, w the same in features, N tokens,
P tokens before the grid, D feature width, X pictures of the whole batch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import PIL.Image
import timm
import torch
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from timm.data import create_transform, resolve_model_data_config
from torch import Tensor, nn

from medtune.data.catalog import nearest
from medtune.models import efficientnet_lite0
from medtune.models.towers import Tower
from medtune.models.towers.image_tower import load_by_order
from medtune.models.weights import assets

PREFIX = "timm:"
_CHANNELS = 3
_REASON = 300
"""Number of characters of timm's own error that a message repeats; it may list every tensor."""
_ELSEWHERE = ("hf-hub:", "local-dir:")
"""Beginnings of names that timm looks up outside of its own list of models."""


class TimmTower(nn.Module):
    """An encoder of timm that is applied to each picture of a media item."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pixels_BFCHW: Tensor) -> Tensor:
        grid_XhwD = as_grid(self.backbone(pixels_BFCHW.flatten(0, 1)), self.backbone)
        features_BFhwD: Tensor = grid_XhwD.unflatten(0, pixels_BFCHW.shape[:2])
        return features_BFhwD


class Encoder(NamedTuple):
    tower: Tower
    # Turns a picture into the pixels (3, H, W) that the encoder reads, float32.
    picture: Callable[[PIL.Image.Image], Tensor]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    pictures: int

    def build(self) -> TimmTower:
        return TimmTower(_without_head(timm.create_model(self.name, pretrained=False)))

    def load(self) -> tuple[nn.Module, str]:
        return TimmTower(_without_head(_pretrained(self.name))), f"{PREFIX}{self.name}, pretrained"


def find_encoder(name: str, *, pictures: int) -> Encoder:
    """Returns the encoder of a name in the recipe, "timm:ENCODER"."""
    own = name.removeprefix(PREFIX)
    _refuse_unknown(own)
    try:
        # On the meta device the encoder has no weights and its features take no memory.
        with torch.device("meta"):
            backbone = _without_head(timm.create_model(own, pretrained=False))
            config: dict[str, Any] = resolve_model_data_config(backbone)
            features_1hwD = as_grid(backbone.eval()(torch.empty(1, *config["input_size"])), backbone)
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise assets.AssetError(f"model.vision {name}: its configuration cannot be read ({error})") from error
    except (AssertionError, AttributeError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"model.vision {name}: it gives no grid of features ({error}); take another one") from error
    if config["input_size"][0] != _CHANNELS:
        raise ValueError(f"model.vision {name}: it reads pictures of {config['input_size'][0]} channels, not of 3")
    height, width, features = features_1hwD.shape[1:]
    named = _Named(own, pictures)
    tower = Tower(named.build, features, (pictures, height, width), named.load)
    return Encoder(tower, create_transform(**{**config, "crop_pct": 1.0, "crop_mode": "squash"}))


def encoder_names() -> list[str]:
    """Returns the values of model.vision for all encoders of timm that have pretrained weights, sorted."""
    return [f"{PREFIX}{name}" for name in timm.list_pretrained()]


def as_grid(features: Tensor, backbone: nn.Module) -> Tensor:
    """Returns the features of an encoder as a grid, (X, h, w, D), without class and register tokens."""
    if features.ndim == 4:
        channels_first = features.shape[2] == features.shape[3]
        return features.permute(0, 2, 3, 1) if channels_first else features
    if features.ndim != 3:
        raise ValueError(f"features of the shape {tuple(features.shape)}")
    before = int(getattr(backbone, "num_prefix_tokens", 0) or 0)
    grid_XND = features[:, before:]
    side = math.isqrt(grid_XND.shape[1])
    if side == 0 or side * side != grid_XND.shape[1]:
        raise ValueError(f"{grid_XND.shape[1]} tokens of a picture are no square")
    grid_XhwD: Tensor = grid_XND.unflatten(1, (side, side))
    return grid_XhwD


def _without_head(encoder: nn.Module) -> nn.Module:
    # The encoder is built as it was pretrained, so that timm compares every name with the file. The norms behind the
    # features stay, because they are what the pretraining ended with.
    reset: Any = encoder
    reset.reset_classifier(0, "")
    return encoder


def _pretrained(name: str) -> nn.Module:
    try:
        read: nn.Module = timm.create_model(name, pretrained=True)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, RuntimeError) as error:
        if name.partition(".")[0] == efficientnet_lite0.ARCHITECTURE:
            return _from_index(name)
        reason = " ".join(str(error).split())[:_REASON]
        if name.startswith("local-dir:"):
            raise ValueError(f"model.vision {PREFIX}{name}: its weights cannot be read: {reason}") from error
        raise assets.AssetError(
            f"model.vision {PREFIX}{name}: its weights are neither kept here nor given by the hub: {reason}. Copy the "
            f"repository's folder from another machine and say model.vision={PREFIX}local-dir:/path/to/folder"
        ) from error
    return read


def _from_index(name: str) -> nn.Module:
    encoder: nn.Module = timm.create_model(name, pretrained=False)
    path = assets.from_index(efficientnet_lite0.INDEX_FILE)
    load_by_order(encoder, torch.load(path, weights_only=True, map_location="cpu"), where=str(path))
    return encoder


def _refuse_unknown(name: str) -> None:
    if name.startswith(_ELSEWHERE):
        return
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        raise ValueError(
            f"model.vision: timm has no encoder {architecture!r}.{nearest(architecture, timm.list_models())} "
            "`medtune list encoders` names them all"
        )
    tags = [known.partition(".")[2] for known in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        raise ValueError(
            f"model.vision: timm has no weights {tag!r} of {architecture}; there are {', '.join(tags) or 'none'}"
        )
