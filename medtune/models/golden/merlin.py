"""Computes the recorded values of Merlin's tower with its heads, and of the report model's tower and projector."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from medtune.models.golden.file import GoldenFile
from medtune.models.golden.recording import recorded
from medtune.models.projectors.linear import linear
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.weights.keymaps import merlin
from medtune.models.weights.keymaps.key_map import load_published
from medtune.models.weights.keymaps.read_file import at_hand

_LAYERS = ("maxpool", "layer1", "layer2", "layer3", "layer4")
_REPORT_LAYERS = tuple(f"encode_image.vision_model.features.{index}." for index in (4, 5, 6, 7))
_CLIP_LAYERS = tuple(f"encode_image.i3_resnet.layer{index}." for index in (1, 2, 3, 4))


def _config(golden: GoldenFile, layers: tuple[str, ...], **heads: int) -> MerlinResNetConfig:
    first, second, third, fourth = (golden.count(prefix) for prefix in layers)
    a, b, c, d = (golden.width_of(f"{prefix}0.conv1.weight") for prefix in layers)
    return MerlinResNetConfig(
        (first, second, third, fourth),
        (a, b, c, d),
        phenotypes=heads.get("phenotypes", 0),
        contrastive_width=heads.get("contrastive_width", 0),
    )


def vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case merlin-vision, with their names `<input>/<value>`."""
    config = _config(
        golden,
        _CLIP_LAYERS,
        phenotypes=golden.width_of("encode_image.i3_resnet.classifier.bias"),
        contrastive_width=golden.width_of("encode_image.i3_resnet.contrastive_head.bias"),
    )
    with torch.device("meta"):
        tower = MerlinResNet(config)
    model = nn.ModuleDict({"vision": tower}).eval()
    load_published(model, at_hand(golden.tensors()), merlin.CONTRASTIVE, where=str(golden.path))
    for name in golden.recorded_values():
        with torch.inference_mode(), recorded(tower, {layer: f"net.{layer}" for layer in _LAYERS}) as seen:
            heads = tower.heads(golden.input(name))
        for layer in _LAYERS:
            yield f"{name}/{layer}", seen[layer]
        # The release has an axis of length one before the batch.
        yield f"{name}/pooled", heads.pooled_BD[None]
        yield f"{name}/contrastive", heads.contrastive_BE
        yield f"{name}/phenotype_logits", heads.phenotype_logits_BP


def report_tokens(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case merlin-report-tokens, with their names `<input>/<value>`."""
    with torch.device("meta"):
        tower = MerlinResNet(_config(golden, _REPORT_LAYERS))
        projector = linear(tower.config.width, golden.width_of("adapter.linear2.bias"))
    model = nn.ModuleDict({"vision": tower, "projector": projector}).eval()
    load_published(model, merlin.merged(at_hand(golden.tensors())), merlin.REPORT, where=str(golden.path))
    for name in golden.recorded_values():
        with torch.inference_mode():
            features = tower(golden.input(name))
            tokens = projector(features)
        yield f"{name}/grid_tokens", features.flatten(1, 3)
        yield f"{name}/adapter_tokens", tokens
