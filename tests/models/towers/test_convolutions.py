"""The gradient of 3D convolutions in bfloat16 on a CPU is that of float32, whatever lay in memory before."""

import pytest
import torch
from torch import Tensor, nn

from medtune.models.towers.convolutions import VolumeConvolution, with_right_gradients
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.resnet3d import ResNet3D, ResNet3DConfig

SIZES = [2**power for power in range(8, 20)]


def leave_nan_in_memory() -> None:
    for size in SIZES:
        kept = [torch.full((size,), float("nan")) for _ in range(8)]
        del kept


def gradient_of(convolution: nn.Conv3d, cells: Tensor, slope: Tensor, *, narrow: bool) -> Tensor:
    convolution.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        made = convolution(cells)
    assert made.dtype == (torch.bfloat16 if narrow else torch.float32)
    leave_nan_in_memory()
    made.backward(slope.to(made.dtype))
    assert convolution.weight.grad is not None
    return convolution.weight.grad


@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 2, 4), (2, 8, 8), (4, 4, 4)])
def test_the_gradient_is_that_of_float32(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    convolution = VolumeConvolution(16, 16, 3, padding=1)
    cells, slope = torch.randn(2, 8, 16, *shape)
    plain = gradient_of(convolution, cells, slope, narrow=False).clone()
    for _ in range(4):
        found = gradient_of(convolution, cells, slope, narrow=True)
        assert torch.allclose(found, plain, rtol=0.02, atol=0.02 * float(plain.abs().max()))


@pytest.mark.parametrize("tower", [ResNet3D(ResNet3DConfig((8, 8, 8))), MerlinResNet(MerlinResNetConfig((1, 1, 1, 1)))])
def test_towers_of_convolutions_have_no_other(tower: nn.Module) -> None:
    kinds = {type(each) for each in tower.modules() if isinstance(each, nn.Conv3d)}
    assert kinds == {VolumeConvolution}


def test_a_module_of_others_is_changed_in_place() -> None:
    module = nn.Sequential(nn.Conv3d(1, 2, 3), nn.Conv2d(1, 2, 3))
    names = list(module.state_dict())
    with_right_gradients(module)
    assert [type(each) for each in module] == [VolumeConvolution, nn.Conv2d]
    assert list(module.state_dict()) == names
