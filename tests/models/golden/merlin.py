"""Computes the recorded values of Merlin's tower with its heads, and of the report model's tower and projector."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from medtune.models.projectors.linear import linear
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.weights.keymaps.key_map import KeyMap, Rule, at_hand, load_published
from medtune.models.zoo import volumes
from tests.models.golden.file import GoldenFile, seen_outputs

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


def vision(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
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
