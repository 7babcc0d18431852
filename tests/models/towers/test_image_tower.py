"""Tests that a frozen image tower reads with folded norms what it reads with its norms, and that a change is seen."""

import numpy as np
import PIL.Image
import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from timm.layers import BatchNormAct2d

from medtune.data.types import Image
from medtune.models import efficientnet_lite0
from medtune.models.towers.image_tower import GridTower, ImageTransform


@pytest.fixture
def tower() -> GridTower:
    torch.manual_seed(0)
    made = efficientnet_lite0.tower(grid=2).eval()
    for norm in made.modules():
        if isinstance(norm, BatchNormAct2d):
            # A new norm changes nothing, whether it is folded or forgotten.
            torch.nn.init.uniform_(norm.running_var, 0.5, 2.0)
            torch.nn.init.normal_(norm.running_mean, std=0.1)
            torch.nn.init.normal_(norm.bias, std=0.1)
    return made


def test_a_frozen_tower_reads_without_norms_what_it_reads_with_them(
    tower: GridTower, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels_BCHW = torch.randn(2, 3, 64, 64)
    plain_BND = tower(pixels_BCHW).detach()
    names = list(tower.state_dict())
    seen: list[int] = []
    forward = BatchNormAct2d.forward

    def counted(norm: BatchNormAct2d, x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        read_BCHW: torch.Tensor = forward(norm, x)
        return read_BCHW

    monkeypatch.setattr(BatchNormAct2d, "forward", counted)
    with torch.no_grad():
        assert torch.allclose(tower(pixels_BCHW), plain_BND, rtol=1e-4, atol=1e-4)
        assert not seen
        assert list(tower.state_dict()) == names
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.allclose(tower(pixels_BCHW).float(), plain_BND, rtol=0.1, atol=0.1)
        next(each for each in tower.modules() if isinstance(each, BatchNormAct2d)).weight.mul_(2.0)
        changed_BND = tower(pixels_BCHW)
        assert not seen
    assert not torch.allclose(changed_BND, plain_BND, atol=1e-2)
    assert torch.allclose(tower(pixels_BCHW), changed_BND, rtol=1e-4, atol=1e-4)
    assert seen, "a tower that learns keeps its norms"


def test_a_tower_with_adapters_keeps_its_norms(tower: GridTower) -> None:
    pixels_BCHW = torch.randn(2, 3, 64, 64)
    targets = [name for name, each in tower.named_modules() if getattr(each, "kernel_size", None) == (1, 1)]
    inject_adapter_in_model(LoraConfig(r=2, target_modules=targets, init_lora_weights=False), tower)
    tower.eval()
    adapted_BND = tower(pixels_BCHW).detach()
    with torch.no_grad():
        assert torch.equal(tower(pixels_BCHW), adapted_BND)


@torch.no_grad()
def test_a_tower_whose_norms_learn_or_in_16_bits_keeps_them(tower: GridTower) -> None:
    pixels_BCHW = torch.randn(2, 3, 64, 64)
    tower.train()
    assert tower._network() is tower.backbone
    tower.eval()
    assert tower._network() is not tower.backbone
    tower.to(torch.bfloat16)
    assert tower._network() is tower.backbone
    assert tower(pixels_BCHW.to(torch.bfloat16)).dtype == torch.bfloat16


def test_pixels_that_are_looked_up_are_those_that_are_normalised_one_by_one() -> None:
    pixels_HWC = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    resized = PIL.Image.fromarray(pixels_HWC).resize((32, 32), PIL.Image.Resampling.BICUBIC)
    resized_HWC = torch.from_numpy(np.asarray(resized, np.float32) / 255.0)
    wanted_HWC = (resized_HWC - torch.tensor(mean)) / torch.tensor(std)
    assert torch.equal(ImageTransform(32, mean, std)(Image(pixels_HWC)), wanted_HWC.permute(2, 0, 1))
