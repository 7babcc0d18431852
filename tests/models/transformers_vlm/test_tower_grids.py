"""Tests that towers read no values back from the device, on stand-ins for a GPU, and give the same features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from medtune.models.contract import Model, parameters_of_parts
from medtune.models.transformers_vlm import model, visual_tokens
from medtune.models.transformers_vlm.model import SEGMENTS
from tests.models.twins import EVERY_TWIN, OF_TRANSFORMERS, shown, twin

READS_BACK = ("nano_glm4v",)
"""Twins whose tower computes with the sizes of pictures on the device and on the host."""
WITH_FACTS = ("nano_qwen25vl", "nano_qwen2vl", "nano_qwen35", "nano_qwen3vl")


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_media_are_encoded_without_reading_values_back(name: str) -> None:
    """Tensors on the meta device have no values: whoever asks for one fails. Gradients are made as well."""
    media = shown(twin(name), name, 0, 1)
    model = deepcopy(twin(name).model).requires_grad_(True).to("meta")
    if name in READS_BACK:
        with pytest.raises(NotImplementedError, match="meta"):
            model.encode(media)
        return
    encoded: Any = model.encode(media)
    tokens: Any = encoded if isinstance(encoded, Tensor) else getattr(encoded, "tokens", None)
    whole = tokens if isinstance(tokens, Tensor) else None if tokens is None else torch.cat(list(tokens))
    if whole is not None:
        whole.square().sum().backward()
        assert any(p.grad is not None for p in model.parameters())


class _Gpu(FakeTensorMode):
    """Runs operators on tensors of a GPU without values, and those on tensors of the host as ever."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        on_gpu = any(isinstance(each, FakeTensor) for each in tree_leaves((args, keywords)))
        if on_gpu or str(keywords.get("device", "cpu")).startswith("cuda"):
            return super().__torch_dispatch__(func, types, args, keywords)
        return func(*args, **keywords)


def _as_on_a_gpu(model: Model) -> Model:
    """Gives the model weights that say that they are on a GPU, and have no values, in place."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                empty = torch.empty(parameter.shape, dtype=parameter.dtype, device="cuda")
                module._parameters[name] = nn.Parameter(empty, requires_grad=False)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device="cuda")
    return model


@pytest.mark.parametrize("name", [name for name in OF_TRANSFORMERS if name not in READS_BACK])
def test_a_tower_on_a_gpu_meets_no_tensor_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: tensor)
    media, model = shown(twin(name), name, 0, 1), deepcopy(twin(name).model)
    with _Gpu(allow_non_fake_inputs=True), torch.no_grad():
        encoded: Any = _as_on_a_gpu(model).encode(media)
    tokens = encoded.tokens if hasattr(encoded, "tokens") else [encoded] if isinstance(encoded, Tensor) else []
    assert all(each.device.type == "cuda" for each in tokens)


@pytest.mark.parametrize("name", WITH_FACTS)
def test_features_are_those_of_a_tower_that_computes_from_the_sizes_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    media = shown(twin(name), name, 0, 1)
    with torch.no_grad():
        mine: Any = twin(name).model.encode(media)
        given: dict[str, Any] = visual_tokens._of_grids(twin(name).model.of_transformers, media[0])
        monkeypatch.setattr(visual_tokens, "_of_grids", lambda *_: {})
        plain: Any = twin(name).model.encode(media)
    assert {"position_ids", "cu_seqlens"} <= given.keys()
    assert all(torch.equal(a, b) for a, b in zip(mine.tokens, plain.tokens, strict=True))


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
        self.gradients = {name: p.grad for name, p in parameters_of_parts(model)["vision"] if p.grad is not None}

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
    runs = model._runs
    monkeypatch.setattr(model, "_runs", lambda boundaries: runs([*boundaries[:2], *boundaries[3:]]))
    assert _Seen("nano_qwen25vl", PICTURES["uneven windows"], plain=False).apart(plain) > 1e-2


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_only_towers_with_segments_are_changed_and_the_saved_configuration_is_not(name: str) -> None:
    whole = twin(name).model.of_transformers
    configs: list[Any] = [getattr(module, "config", None) for module in whole.modules()]
    taken = {getattr(config, "_attn_implementation", None) == SEGMENTS for config in configs}
    assert (True in taken) == (name in WITH_SEGMENTS)
    assert SEGMENTS not in whole.config.to_json_string()
