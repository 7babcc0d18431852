"""Computes for solids on a voxel grid how deep each voxel lies inside a solid and which share of it the solid fills.

Legend of array names: I, J, K voxels to the patient's left, to the back and to the head.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Point = tuple[float, float, float]
"""The distances in mm from the grid's centre towards the patient's left, back and head."""

SIZE = (96, 96, 72)
SPACING_MM = 4.0
_OUTSIDE_MM = np.float32(-1000)
_FINE = 4
_FINE_MM = ((np.arange(_FINE, dtype=np.float32) + 0.5) / _FINE - 0.5) * SPACING_MM

Block = tuple[slice, slice, slice]


class Ball(NamedTuple):
    """An ellipsoid."""

    centre: Point
    radii_mm: Point  # Its half axes along the three axes of the grid.


class Tube(NamedTuple):
    """A round tube with half a ball at each end."""

    start: Point
    stop: Point
    radius_mm: float


Solid = Ball | Tube


@dataclass(frozen=True, slots=True)
class Depth:
    """A solid on the voxel grid."""

    block: Block  # The part of the grid that contains the whole solid.
    # The depth of each voxel of the block below the solid's surface, in mm; negative outside the solid.
    depth_IJK: Floats
    # The share of each voxel that the solid fills, 0 to 1; None if it was not counted on a finer grid.
    share_IJK: Floats | None = None

    def filled(self) -> Floats:
        """Returns the share of each voxel of the block that is filled, 0 to 1.

        If the shares were not counted, they are those that a plane surface at the voxel's depth would give.
        """
        if self.share_IJK is not None:
            return self.share_IJK
        share: Floats = np.clip(self.depth_IJK / np.float32(SPACING_MM) + np.float32(0.5), 0, 1)
        return share

    def whole(self) -> Floats:
        depth_IJK = np.full(SIZE, _OUTSIDE_MM, np.float32)
        depth_IJK[self.block] = self.depth_IJK
        return depth_IJK

    def on(self, block: Block) -> Floats:
        return self.whole()[block]


@lru_cache(maxsize=1)
def axes_mm() -> tuple[Floats, Floats, Floats]:
    """Returns the centres of the voxels along each axis, in shapes that can be broadcast to the grid."""
    i, j, k = ((np.arange(n, dtype=np.float32) - np.float32((n - 1) / 2)) * np.float32(SPACING_MM) for n in SIZE)
    return i[:, None, None], j[None, :, None], k[None, None, :]


def depth_of(solid: Solid) -> Depth:
    """Returns how deep the voxels lie in a solid: exactly for tubes, approximately near the surface for ellipsoids."""
    if isinstance(solid, Ball):
        low = [c - r for c, r in zip(solid.centre, solid.radii_mm, strict=True)]
        high = [c + r for c, r in zip(solid.centre, solid.radii_mm, strict=True)]
        block = _block(low, high)
        return Depth(block, _ball_depth(solid, block))
    low = [min(a, b) - solid.radius_mm for a, b in zip(solid.start, solid.stop, strict=True)]
    high = [max(a, b) + solid.radius_mm for a, b in zip(solid.start, solid.stop, strict=True)]
    block = _block(low, high)
    return Depth(block, _tube_depth(solid, block))


def counted(ball: Ball) -> Depth:
    """Returns an ellipsoid whose shares of voxels were counted on a finer grid.

    This is needed for small ellipsoids, whose surface within a voxel is not close to a plane.
    """
    drawn = depth_of(ball)
    squares = []
    for axis, offsets in enumerate(_offsets(ball.centre, drawn.block)):
        fine = (offsets.ravel()[:, None] + _FINE_MM).ravel() / np.float32(ball.radii_mm[axis])
        squares.append(fine**2)
    x, y, z = squares
    inside = x[:, None, None] + y[None, :, None] + z[None, None, :] <= 1
    i, j, k = drawn.depth_IJK.shape
    share = inside.reshape(i, _FINE, j, _FINE, k, _FINE).mean(axis=(1, 3, 5), dtype=np.float32)
    return Depth(drawn.block, drawn.depth_IJK, share)


def union(parts: list[Depth]) -> Depth:
    """Returns several solids as one."""
    starts = [min(part.block[axis].start for part in parts) for axis in range(3)]
    stops = [max(part.block[axis].stop for part in parts) for axis in range(3)]
    block = (slice(starts[0], stops[0]), slice(starts[1], stops[1]), slice(starts[2], stops[2]))
    depth_IJK = np.full([stop - start for start, stop in zip(starts, stops, strict=True)], _OUTSIDE_MM, np.float32)
    for part in parts:
        i, j, k = (slice(own.start - start, own.stop - start) for own, start in zip(part.block, starts, strict=True))
        here = depth_IJK[i, j, k]
        np.maximum(here, part.depth_IJK, out=here)
    return Depth(block, depth_IJK)


def _block(low_mm: list[float], high_mm: list[float]) -> Block:
    bounds = []
    for low, high, count in zip(low_mm, high_mm, SIZE, strict=True):
        middle = (count - 1) / 2
        first = int(np.floor((low - SPACING_MM) / SPACING_MM + middle))
        last = int(np.ceil((high + SPACING_MM) / SPACING_MM + middle))
        bounds.append(slice(min(max(first, 0), count - 1), max(min(last + 1, count), 1)))
    return bounds[0], bounds[1], bounds[2]


def _offsets(centre: Point, block: Block) -> tuple[Floats, Floats, Floats]:
    x, y, z = axes_mm()
    i, j, k = block
    return x[i] - np.float32(centre[0]), y[:, j] - np.float32(centre[1]), z[:, :, k] - np.float32(centre[2])


def _ball_depth(ball: Ball, block: Block) -> Floats:
    x, y, z = _offsets(ball.centre, block)
    a, b, c = (np.float32(radius) for radius in ball.radii_mm)
    reach = np.sqrt((x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2)
    slope = np.sqrt((x / a**2) ** 2 + (y / b**2) ** 2 + (z / c**2) ** 2)
    # The distance to the surface along the gradient, to first order. At the centre, where the gradient is 0, the
    # distance is the smallest radius.
    depth: Floats = np.where(slope > 1e-6, (1 - reach) * reach / np.maximum(slope, np.float32(1e-6)), min(a, b, c))
    return depth.astype(np.float32)


def _tube_depth(tube: Tube, block: Block) -> Floats:
    x, y, z = _offsets(tube.start, block)
    along = np.subtract(tube.stop, tube.start).astype(np.float32)
    length_squared = max(float(along @ along), 1e-6)
    share = np.clip((x * along[0] + y * along[1] + z * along[2]) / np.float32(length_squared), 0, 1)
    distance = np.sqrt((x - share * along[0]) ** 2 + (y - share * along[1]) ** 2 + (z - share * along[2]) ** 2)
    depth: Floats = np.float32(tube.radius_mm) - distance
    return depth.astype(np.float32)
