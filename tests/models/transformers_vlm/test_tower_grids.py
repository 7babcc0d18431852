"""Tests that towers read no values back from the device, on stand-ins for a GPU, and give the same features."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from medtune.models.contract import Model
from medtune.models.transformers_vlm import visual_tokens
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
