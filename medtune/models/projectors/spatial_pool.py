"""M3D's projector: the average over small cubes of the feature grid, then a two-layer MLP.

Shape legend: B volumes, z, h, w the grid's sides, N tokens, D feature width, E embedding width.

Source: BAAI-DCAI/M3D@63e72005 ("spp" with spatial pooling); checked against tests/golden/m3d-vision.json.
"""

import math
from typing import Literal

from torch import Tensor, nn

from medtune.models.projectors import Projector
from medtune.models.towers import Size, Tower

Pooling = Literal["spatial", "sequence"]
"""Which features are averaged: cubes of the grid, or as many neighbours in the flattened order.

The published checkpoints use cubes.
"""


CUBE: Size = (2, 2, 2)
"""Number of features along each axis of the grid that are averaged."""


class SpatialPoolProjector(nn.Module):
    """A projector that maps features (B, z, h, w, D) to tokens (B, N, E).

    For instance, a grid of 8 x 16 x 16 that is pooled by 2 gives 256 tokens.
    """

    def __init__(
        self, width: int, embedding_width: int, *, pool: Size = CUBE, layers: int = 2, pooling: Pooling = "spatial"
    ) -> None:
        super().__init__()
        self.pool = pool
        self.pooling = pooling
        parts: list[nn.Module] = [nn.Linear(width, embedding_width)]
        for _ in range(layers - 1):
            parts += [nn.GELU(), nn.Linear(embedding_width, embedding_width)]
        self.mlp = nn.Sequential(*parts)

    def forward(self, features_BzhwD: Tensor) -> Tensor:
        """Returns tokens_BNE, in an order in which the depth is slowest.

        Features at the end of an axis that do not fill a cube are left out.
        """
        if self.pooling == "sequence":
            along_BDN = features_BzhwD.flatten(1, -2).transpose(1, 2)
            run_BNE: Tensor = self.mlp(nn.functional.avg_pool1d(along_BDN, math.prod(self.pool)).transpose(1, 2))
            return run_BNE
        sides = features_BzhwD.shape[1:4]
        if features_BzhwD.ndim != 5 or any(side < least for side, least in zip(sides, self.pool, strict=True)):
            raise ValueError(
                f"spatial pooling by {self.pool} needs a grid of features, (B, z, h, w, D), with sides of at least "
                f"{self.pool}; got {tuple(features_BzhwD.shape)}. Choose another projector for this tower."
            )
        pooled_BDzhw = nn.functional.avg_pool3d(features_BzhwD.movedim(-1, 1), self.pool)
        tokens_BNE: Tensor = self.mlp(pooled_BDzhw.flatten(2).transpose(1, 2))
        return tokens_BNE


def projector(over: Tower) -> Projector:
    """Returns the projector for a tower's features, pooled by 2 along each axis.

    The first axis of a tower over pictures may be a single image, which is not pooled along that axis.
    """
    if min(over.grid[1:]) < CUBE[0]:
        raise ValueError(f"spatial_pool needs a grid of at least {CUBE[0]} on each side, not {over.grid}")
    pool = (min(CUBE[0], over.grid[0]), *CUBE[1:])
    num_tokens = math.prod(side // each for side, each in zip(over.grid, pool, strict=True))
    return Projector(lambda width: SpatialPoolProjector(over.width, width, pool=pool), num_tokens)
