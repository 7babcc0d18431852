"""A learned attention bias that depends on the distance between two patches and fits a grid of any size.

Shape legend: A heads, N = h * w patches.

Source: the continuous position bias of Swin Transformer V2 (Liu et al., arXiv 2111.09883), two hidden layers,
leaky ReLU with slope 0.1; checked against golden/ctclip-vision.json.
"""

import torch
from torch import Tensor, nn


class LogOffsetBias(nn.Module):
    """An MLP that computes the bias of two patches from sign(d) * log(1 + |d|) of their row and column offsets d."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(0.1), nn.Linear(width, width), nn.LeakyReLU(0.1), nn.Linear(width, heads)
        )

    def forward(self, grid: tuple[int, int]) -> Tensor:
        """Returns bias_ANN for a grid of (h, w), with the patches numbered row by row."""
        weight = next(self.net.parameters())
        rows, columns = (torch.arange(side, device=weight.device, dtype=weight.dtype) for side in grid)
        places_N2 = torch.cartesian_prod(rows, columns)
        offsets_NN2 = places_N2[:, None] - places_N2[None, :]
        logs_NN2 = offsets_NN2.sign() * offsets_NN2.abs().log1p()
        bias_ANN: Tensor = self.net(logs_NN2).movedim(-1, 0)
        return bias_ANN
