"""Computes the recorded values of RadFM's tower and of its projector."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.towers.radfm_vit import RadFMViT, RadFMViTConfig
from medtune.models.weights.keymaps.key_map import at_hand, load_published
from medtune.models.weights.releases import volume_release
from tests.models.golden.file import GoldenFile, seen_outputs

_VISION = "embedding_layer.vision_encoder."
_PERCEIVER = "embedding_layer.perceiver."


def vision_config(golden: GoldenFile) -> RadFMViTConfig:
    """Returns the sizes of the tower: widths from the shapes of the tensors, the others from the file's settings."""
    config = golden.config
    return RadFMViTConfig(
        channels=int(config["channels"]),
        patch=tuple(config["patch"]),
        width=golden.width_of(_VISION + "to_patch_embedding.2.bias"),
        depth=golden.count(_VISION + "transformer.layers."),
        heads=int(config["heads"]),
        head_width=int(config["dim_head"]),
        mlp_width=golden.width_of(_VISION + "transformer.layers.0.1.fn.net.0.bias"),
        position_rows=tuple(golden.width_of(f"{_VISION}pos_embedding.{t}_embed.weight") for t in ("row", "col", "dep")),  # type: ignore[arg-type]
    )


def vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case radfm-vision, with their names `<input>/<value>`."""
    perceiver = golden.config["perceiver"]
    resampler = PerceiverConfig(
        width=golden.width_of(_PERCEIVER + "latents", 1),
        depth=golden.count(_PERCEIVER + "layers."),
        heads=int(perceiver["heads"]),
        head_width=int(perceiver["dim_head"]),
        latents=golden.width_of(_PERCEIVER + "latents"),
        tags="embedding_layer.figure_token_weight" in golden.weights,
    )
    with torch.device("meta"):
        tower = RadFMViT(vision_config(golden))
        projector = PerceiverProjector(resampler, golden.width_of("embedding_layer.fc.bias"))
    model = nn.ModuleDict({"vision": tower, "projector": projector}).eval()
    load_published(model, at_hand(golden.tensors()), volume_release.KEY_MAP, where=str(golden.path))
    points = {
        "patch_embedding": "vision.patch_embedding",
        "position": "vision.positions",
        "block0": "vision.blocks.0",
        "perceiver": "projector.resampler",
        "tokens": "projector.linear",
    }
    for name in golden.recorded_values():
        scans = golden.input(name)
        if "then" in golden.inputs[name]:
            scans = as_slab(scans, tuple(golden.config["max_size"][:2]), tower.config.patch[2])[:, None]
        batch, per_sample = scans.shape[:2]
        with torch.inference_mode(), seen_outputs(model, points) as seen:
            features = tower(scans.flatten(0, 1))
            projector(features)
        yield f"{name}/patch_embedding", seen["patch_embedding"]
        yield f"{name}/position", seen["position"].expand(batch * per_sample, -1, -1)
        yield f"{name}/block0", seen["block0"]
        yield f"{name}/encoder", features.flatten(1, 3)
        yield f"{name}/perceiver", seen["perceiver"].unflatten(0, (batch, per_sample))
        yield f"{name}/tokens", seen["tokens"].flatten(0, 1)


def as_slab(image_BCHW: Tensor, size: tuple[int, ...], depth: int) -> Tensor:
    """Returns 2D images as slabs of equal slices, which the 3D tower can read, (B, C, H, W, depth).

    Args:
        image_BCHW: The images.
        size: Height and width of the slabs.
        depth: Number of slices.

    Source: chaoyi-wu/RadFM@9efba84c, which adds a depth axis of length one and then interpolates to the nearest value.
    """
    return nn.functional.interpolate(image_BCHW[..., None], size=(*size, depth), mode="nearest")
