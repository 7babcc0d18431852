"""Computes the recorded values of the towers of RadFM, M3D, Merlin and CT-CLIP, and of their projectors."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.linear import linear
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.radfm_vit import RadFMViT, RadFMViTConfig
from medtune.models.towers.vit3d import M3DViT, M3DViTConfig
from medtune.models.weights.key_map import KeyMap, Rule, at_hand, load_published
from medtune.models.weights.releases import ct_chat_release, volume_release
from medtune.models.zoo import volumes
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


def radfm_vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
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

    Source: chaoyi-wu/RadFM@9efba84c, which adds a depth axis of length one and then interpolates to the nearest value.
    """
    return nn.functional.interpolate(image_BCHW[..., None], size=(*size, depth), mode="nearest")


_CTVIT = "visual_transformer."
_COCA = "model.mm_projector."
_CTVIT_POINTS = {name: name for name in ("patch_embedding", "position_bias", "spatial", "temporal")}


def ct_clip_vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
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
        with torch.inference_mode(), seen_outputs(tower, _CTVIT_POINTS) as seen:
            encoded = tower.encode(golden.input(name))
            codes = tower.quantise(encoded)
        for value_name in _CTVIT_POINTS:
            yield f"{name}/{value_name}", seen[value_name]
        yield f"{name}/encoded", encoded
        yield f"{name}/tokens", codes.tokens
        yield f"{name}/codebook_ids", codes.ids


def ct_chat_projector(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case ctchat-projector, with their names `<input>/<value>`."""
    linears = sorted(n for n in golden.weights if n.startswith(_COCA + "proj.") and n.endswith("bias"))
    config = CoCaConfig(
        width=golden.width_of(_COCA + "attn_pool.query", 1),
        heads=int(golden.config["heads"]),
        queries=golden.width_of(_COCA + "attn_pool.query"),
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


_VIT = "model.vision_tower.vision_tower."
_POOLED = "model.mm_projector.projector."
_VIT_POINTS = {
    "patch_embedding": "vision.vit.patch_embedding",
    "block0": "vision.vit.blocks.0",
    "norm": "vision.vit.norm",
}


def m3d_vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case m3d-vision, with their names `<input>/<value>`."""
    linears = sorted(n for n in golden.weights if n.startswith(_POOLED) and n.endswith("bias"))
    drawn: dict[str, Tensor] = {}
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
        drawn = golden.tensors(name, known=drawn)
        load_published(model, at_hand(drawn), volumes.LAMED, where=str(golden.path))
        with torch.inference_mode(), seen_outputs(model, _VIT_POINTS) as seen:
            features = tower(golden.input(name))
            tokens = projector(features)
        yield f"{name}/patch_embedding", seen["patch_embedding"]
        yield f"{name}/block0_with_cls", seen["block0"]
        yield f"{name}/cls_after_norm", seen["norm"][:, 0]
        yield f"{name}/patch_tokens", features.flatten(1, 3)
        yield f"{name}/tokens", tokens


_LAYERS = ("maxpool", "layer1", "layer2", "layer3", "layer4")
_REPORT_LAYERS = tuple(f"encode_image.vision_model.features.{index}." for index in (4, 5, 6, 7))
_CLIP_LAYERS = tuple(f"encode_image.i3_resnet.layer{index}." for index in (1, 2, 3, 4))


CONTRASTIVE = KeyMap(
    checkpoint="Merlin's contrastive checkpoint",
    rules=(
        Rule(r"encode_image\.i3_resnet\.((?:conv1|bn1|layer[1-4])\..+)", (r"vision.net.\1",)),
        Rule(r"encode_image\.i3_resnet\.((?:classifier|contrastive_head)\..+)", (r"vision.\1",)),
    ),
    left_out=(r"encode_text\..+", "logit_scale"),
)
"""The key map of the contrastive checkpoint, for a tower with both heads; its text tower is left out."""


class MerlinWithHeads(MerlinResNet):
    """The tower with the two heads of the contrastive checkpoint, each over the mean of the feature map."""

    def __init__(self, config: MerlinResNetConfig, *, phenotypes: int, contrastive_width: int) -> None:
        super().__init__(replace(config, pooled=True))
        self.classifier = nn.Conv3d(config.width, phenotypes, kernel_size=1)
        self.contrastive_head = nn.Conv3d(config.width, contrastive_width, kernel_size=1)


def _config(golden: GoldenFile, layers: tuple[str, ...]) -> MerlinResNetConfig:
    first, second, third, fourth = (golden.count(prefix) for prefix in layers)
    a, b, c, d = (golden.width_of(f"{prefix}0.conv1.weight") for prefix in layers)
    return MerlinResNetConfig((first, second, third, fourth), (a, b, c, d))


def merlin_vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case merlin-vision, with their names `<input>/<value>`."""
    prefix = "encode_image.i3_resnet."
    with torch.device("meta"):
        tower = MerlinWithHeads(
            _config(golden, _CLIP_LAYERS),
            phenotypes=golden.width_of(prefix + "classifier.bias"),
            contrastive_width=golden.width_of(prefix + "contrastive_head.bias"),
        )
    model = nn.ModuleDict({"vision": tower}).eval()
    load_published(model, at_hand(golden.tensors()), CONTRASTIVE, where=str(golden.path))
    for name in golden.recorded_values():
        with torch.inference_mode(), seen_outputs(tower, {layer: f"net.{layer}" for layer in _LAYERS}) as seen:
            pooled_BD111 = tower(golden.input(name)).movedim(-1, 1)
            contrastive, phenotypes = tower.contrastive_head(pooled_BD111), tower.classifier(pooled_BD111)
        for layer in _LAYERS:
            yield f"{name}/{layer}", seen[layer]
        # The release has an axis of length one before the batch.
        yield f"{name}/pooled", pooled_BD111.flatten(1)[None]
        yield f"{name}/contrastive", contrastive.flatten(1)
        yield f"{name}/phenotype_logits", phenotypes.flatten(1)


def report_tokens(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case merlin-report-tokens, with their names `<input>/<value>`."""
    with torch.device("meta"):
        tower = MerlinResNet(_config(golden, _REPORT_LAYERS))
        projector = linear(tower.config.width, golden.width_of("adapter.linear2.bias"))
    model = nn.ModuleDict({"vision": tower, "projector": projector}).eval()
    load_published(model, volumes.merged(at_hand(golden.tensors())), volumes.REPORT, where=str(golden.path))
    for name in golden.recorded_values():
        with torch.inference_mode():
            features = tower(golden.input(name))
            tokens = projector(features)
        yield f"{name}/grid_tokens", features.flatten(1, 3)
        yield f"{name}/adapter_tokens", tokens
