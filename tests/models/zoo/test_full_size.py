"""Tests that models of the hub, built at full size without weights, have as many parameters as the published files."""

from __future__ import annotations

import pytest

from medtune.models.assemble import zoo_entry
from medtune.models.transformers_vlm.model import TransformersVlm

# The hub's counts for the safetensors of each repository; a tied output layer is stored once.
PARAMETERS = {
    "internvl3_8b": 7_944_373_760,
    "lingshu_7b": 8_292_166_656,
    "llava15_7b": 7_063_427_072,
    "llava_next_video_7b": 7_063_431_168,
    "llava_onevision_7b": 8_030_348_832,
    "llava_video_7b_qwen2": 8_030_348_832,
    "medgemma_4b": 4_300_079_472,
    "qwen25vl_7b": 8_292_166_656,
    "qwen2vl_7b": 8_291_375_616,
    "qwen3vl_8b": 8_767_123_696,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(name: str) -> None:
    entry = zoo_entry(name)
    skeleton = entry.skeleton()
    assert isinstance(skeleton, TransformersVlm)
    assert sum(parameter.numel() for parameter in skeleton.parameters()) == PARAMETERS[name]
    assert entry.hub is not None
