"""Tests that towers attend to all segments of one length in one call, with transformers' own features and gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from medtune.models.contract import part_parameters
from medtune.models.transformers_vlm import tower_segments
from medtune.models.transformers_vlm.tower_segments import SEGMENTS
from tests.models.twins import OF_TRANSFORMERS, twin

WITH_SEGMENTS = ("nano_glm4v", "nano_qwen25vl", "nano_qwen2vl", "nano_qwen35", "nano_qwen3vl")
PICTURES = {
    "one picture": [(1, 20, 32)],
    "uneven windows": [(1, 18, 26)],
    "less than a window": [(1, 2, 2)],
    "several pictures": [(1, 18, 26), (1, 8, 8), (1, 18, 26), (1, 2, 14)],
    "a video": [(3, 10, 14)],
}
"""Grids of patches: frames, rows and columns."""


class _Seen:
    """What a tower makes of pictures: features, gradients of its weights, and calls of the attention."""

    def __init__(self, name: str, grids: Sequence[tuple[int, int, int]], *, plain: bool) -> None:
        model = deepcopy(twin(name).model)
        tower: Any = model.of_transformers.get_submodule("model.visual")
        if plain:
            tower.config._attn_implementation = "sdpa"
        config = tower.config
        width = config.in_channels * config.temporal_patch_size * config.patch_size**2
        grid = torch.tensor(grids)
        pixels = torch.randn(int(grid.prod(1).sum()), width, generator=torch.Generator().manual_seed(0))
        self.calls: Counter[int] = Counter()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nn.functional, "scaled_dot_product_attention", self._counted)
            features = tower(pixels, grid_thw=grid).pooler_output
            self.features: Tensor = features.detach()
            features.square().sum().backward()
        self.gradients = {name: p.grad for name, p in part_parameters(model, "vision") if p.grad is not None}

    def _counted(self, query: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self.calls[query.shape[2]] += 1
        return torch._C._nn.scaled_dot_product_attention(query, *args, **kwargs)

    def apart(self, other: _Seen) -> float:
        """Returns the largest difference of features and gradients, each relative to the largest value."""
        assert self.gradients.keys() == other.gradients.keys()
        pairs = [(self.features, other.features), *((self.gradients[n], other.gradients[n]) for n in self.gradients)]
        return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) for a, b in pairs)


@pytest.mark.parametrize("pictures", PICTURES)
@pytest.mark.parametrize("name", WITH_SEGMENTS)
def test_features_and_gradients_are_those_of_a_call_for_each_segment(name: str, pictures: str) -> None:
    # GLM's model gives its tower each frame of a video as a picture.
    grids = [(1, 10, 14)] * 3 if (name, pictures) == ("nano_glm4v", "a video") else PICTURES[pictures]
    mine, plain = (_Seen(name, grids, plain=each) for each in (False, True))
    assert mine.apart(plain) < 5e-6
    assert mine.calls.keys() == plain.calls.keys()


def test_a_picture_takes_four_calls_in_a_layer_of_windows() -> None:
    """18 x 26 patches in windows of 4 x 4: whole ones, those at the right and at the bottom, and the corner."""
    mine, plain = (_Seen("nano_qwen25vl", PICTURES["uneven windows"], plain=each) for each in (False, True))
    windows, whole = 5 * 7, 1
    assert plain.calls.total() == windows + whole
    assert mine.calls.total() == 3 + whole
    assert set(mine.calls) == {16, 8, 4, 18 * 26}


def test_a_picture_as_the_model_shows_it_takes_few_calls() -> None:
    """1,288 x 1,288 pixels in Qwen2.5-VL's tower: 92 x 92 patches in windows of 8 x 8, in 28 of 32 layers."""
    grids = [(1, 92, 92)]
    mine, plain = (_Seen("nano_qwen25vl", grids, plain=each) for each in (False, True))
    assert plain.calls.total() == 23 * 23 + 1
    assert mine.calls.total() == 2
    assert mine.apart(plain) < 5e-6


def test_a_boundary_that_is_left_out_changes_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _Seen("nano_qwen25vl", PICTURES["uneven windows"], plain=True)
    runs = tower_segments._runs
    monkeypatch.setattr(tower_segments, "_runs", lambda boundaries: runs([*boundaries[:2], *boundaries[3:]]))
    assert _Seen("nano_qwen25vl", PICTURES["uneven windows"], plain=False).apart(plain) > 1e-2


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_only_towers_with_segments_are_changed_and_the_saved_configuration_is_not(name: str) -> None:
    whole = twin(name).model.of_transformers
    configs: list[Any] = [getattr(module, "config", None) for module in whole.modules()]
    taken = {getattr(config, "_attn_implementation", None) == SEGMENTS for config in configs}
    assert (True in taken) == (name in WITH_SEGMENTS)
    assert SEGMENTS not in whole.config.to_json_string()
