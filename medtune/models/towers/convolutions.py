"""Convolutions of volumes whose weights get the right gradient in 16 bits on a CPU too.

Where the first axis of what is convolved is shorter than the kernel, oneDNN's gradient of bfloat16 weights is made of
memory that nobody wrote: between slightly wrong and not a number, another one in each run. There they are computed in
float32; such volumes are small.

Source: found with torch 2.15.0 on a CPU with AVX512-BF16; tests/models/towers/test_convolutions.py shows it.
"""

import torch
from torch import Tensor, nn

_WIDE = (torch.float32, torch.float64)


class VolumeConvolution(nn.Conv3d):
    """A `torch.nn.Conv3d` with that care."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Returns what `torch.nn.Conv3d` returns, in the type in which it would."""
        autocasts = torch.is_autocast_enabled("cpu")
        narrow = torch.get_autocast_dtype("cpu") if autocasts else input.dtype
        if input.device.type != "cpu" or input.shape[2] >= self.kernel_size[0] or narrow in _WIDE:
            made: Tensor = super().forward(input)
            return made
        with torch.autocast("cpu", enabled=False):
            bias = None if self.bias is None else self.bias.float()
            wide: Tensor = self._conv_forward(input.float(), self.weight.float(), bias)
            return wide.to(narrow)


def with_right_gradients(module: nn.Module) -> None:
    """Makes the 3D convolutions of a module, which others may have put together, of this kind."""
    for each in module.modules():
        if type(each) is nn.Conv3d:
            each.__class__ = VolumeConvolution
