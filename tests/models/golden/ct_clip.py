"""Computes the recorded values of CT-CLIP's tower and of CT-CHAT's projector."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.weights.keymaps.key_map import at_hand, load_published
from medtune.models.weights.releases import ct_chat_release
from tests.models.golden.file import GoldenFile, seen_outputs

_CTVIT = "visual_transformer."
_PROJECTOR = "model.mm_projector."
_POINTS = {name: name for name in ("patch_embedding", "position_bias", "spatial", "temporal")}


def vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case ctclip-vision, with their names `<input>/<value>`."""
    config = golden.config
    sizes = CTViTConfig(
        patch=(int(config["temporal_patch"]), int(config["patch"]), int(config["patch"])),
        width=golden.width_of(_CTVIT + "to_patch_emb.2.bias"),
        spatial_depth=golden.count(_CTVIT + "enc_spatial_transformer.layers."),
        temporal_depth=golden.count(_CTVIT + "enc_temporal_transformer.layers."),
        heads=int(config["heads"]),
        head_width=int(config["dim_head"]),
        mlp_width=golden.width_of(_CTVIT + "enc_spatial_transformer.layers.0.3.4.weight", 1),
        codes=golden.width_of(_CTVIT + "vq._codebook.embed", 1),
    )
    with torch.device("meta"):
        tower = CTViT(sizes)
    model = nn.ModuleDict({"vision": tower}).eval()
    load_published(model, at_hand(golden.tensors()), ct_chat_release.CT_CLIP, where=str(golden.path))
    for name in golden.recorded_values():
        with torch.inference_mode(), seen_outputs(tower, _POINTS) as seen:
            encoded = tower.encode(golden.input(name))
            codes = tower.quantise(encoded)
        for value_name in _POINTS:
            yield f"{name}/{value_name}", seen[value_name]
        yield f"{name}/encoded", encoded
        yield f"{name}/tokens", codes.tokens
        yield f"{name}/codebook_ids", codes.ids


def projector(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case ctchat-projector, with their names `<input>/<value>`."""
    linears = sorted(n for n in golden.weights if n.startswith(_PROJECTOR + "proj.") and n.endswith("bias"))
    config = CoCaConfig(
        width=golden.width_of(_PROJECTOR + "attn_pool.query", 1),
        heads=int(golden.config["heads"]),
        queries=golden.width_of(_PROJECTOR + "attn_pool.query"),
        mlp_layers=len(linears),
    )
    with torch.device("meta"):
        module = CoCaProjector(config, golden.width_of(linears[-1]))
    model = nn.ModuleDict({"projector": module}).eval()
    load_published(model, at_hand(golden.tensors()), ct_chat_release.KEY_MAP, where=str(golden.path))
    for name in golden.recorded_values():
        with torch.inference_mode(), seen_outputs(module, {"pooled": "pool", "normed": "norm"}) as seen:
            tokens = module(golden.input(name))
        yield f"{name}/pooled", seen["pooled"]
        yield f"{name}/normed", seen["normed"]
        yield f"{name}/tokens", tokens
