"""Tests that the generic entry and the rows of known families read the same checkpoint alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medtune.models.contract import Assembled
from medtune.models.transformers_vlm.generic.loading import read_config, read_generic
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.asking import saved
from tests.models.twins import picture, row_each, size_of, twin

# M-RoPE with a merger inside the tower, and an image whose tokens see one another; the others are plain.
QUICK = ("nano_gemma3", "nano_qwen3vl")
SLOW = ("nano_internvl", "nano_llava", "nano_llava_next_video", "nano_llava_video", "nano_qwen25vl", "nano_qwen2vl")


def _generic(name: str, folder: Path) -> Assembled:
    saved(name, folder)
    where = str(folder)
    assembled = read_generic(where, read_config(where), Loading(weights=where))
    assembled.model.eval()
    return assembled


def _sums(assembled: Assembled, width: int, height: int) -> list[float]:
    image = picture(3, width=width, height=height)
    layouts = [assembled.family.layout("Which plane?", each, shape=size_of(image)) for each in ("head", "abdomen")]
    with torch.no_grad():
        encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(image)]))
        found: list[float] = assembled.model(row_each(assembled, layouts, [0, 0]), encoded).sums(2).tolist()
    return found


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_both_give_the_same_likelihoods(name: str, tmp_path: Path) -> None:
    generic = _generic(name, tmp_path)
    for width, height in ((90, 60), (40, 120)):
        assert _sums(generic, width, height) == pytest.approx(_sums(twin(name), width, height), abs=1e-3)


def test_a_processor_whose_outputs_depend_on_the_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the processor's output cross_attention_mask depends on the question"):
        _generic("nano_mllama", tmp_path)
