"""Computes the recorded values of M3D's tower and of its projector with spatial pooling."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.towers.m3d_vit import M3DViT, M3DViTConfig
from medtune.models.weights.keymaps.key_map import at_hand, load_published
from medtune.models.zoo import volumes
from tests.models.golden.file import GoldenFile, seen_outputs

_VIT = "model.vision_tower.vision_tower."
_PROJECTOR = "model.mm_projector.projector."
_POINTS = {"patch_embedding": "vision.vit.patch_embedding", "block0": "vision.vit.blocks.0", "norm": "vision.vit.norm"}


def vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case m3d-vision, with their names `<input>/<value>`."""
    linears = sorted(n for n in golden.weights if n.startswith(_PROJECTOR) and n.endswith("bias"))
    for name in golden.recorded_values():
        config = M3DViTConfig(
            image_size=tuple(golden.inputs[name]["shape"][2:]),
            patch=tuple(golden.config["patch"]),
            width=golden.width_of(_VIT + "norm.bias"),
            mlp_width=golden.width_of(_VIT + "blocks.0.mlp.linear1.bias"),
            depth=golden.count(_VIT + "blocks."),
            heads=int(golden.config["heads"]),
        )
        side = int(golden.config["projector"]["pooling_size"])
        pooling = golden.config["per_input"][name]["pooling"]
        with torch.device("meta"):
            tower = M3DViT(config)
            projector = SpatialPoolProjector(
                config.width, golden.width_of(linears[-1]), pool=(side,) * 3, layers=len(linears), pooling=pooling
            )
        model = nn.ModuleDict({"vision": tower, "projector": projector}).eval()
        load_published(model, at_hand(golden.tensors(name)), volumes.LAMED, where=str(golden.path))
        with torch.inference_mode(), seen_outputs(model, _POINTS) as seen:
            features = tower(golden.input(name))
            tokens = projector(features)
        yield f"{name}/patch_embedding", seen["patch_embedding"]
        yield f"{name}/block0_with_cls", seen["block0"]
        yield f"{name}/cls_after_norm", seen["norm"][:, 0]
        yield f"{name}/patch_tokens", features.flatten(1, 3)
        yield f"{name}/tokens", tokens
