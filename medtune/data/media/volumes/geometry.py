"""Converts a volume's voxel-to-patient matrix to spacing and orientation and back, and reorients volumes."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Volume

_Values = TypeVar("_Values", bound=np.generic)
MAX_COSINE = 1e-3
"""The largest cosine between two axes that still counts as a right angle: 0.06 degrees, far above rounding."""

_DIRECTIONS = {"R": (0, 1), "L": (0, -1), "A": (1, 1), "P": (1, -1), "S": (2, 1), "I": (2, -1)}

_MOST = 1e9
"""No scanner gives such a value; the number is our own choice."""
AIR_HU = -1000.0


class Geometry(NamedTuple):
    """A volume's spacing along i, j, k in mm, and the directions in which its axes grow (see `Volume`)."""

    spacing_mm: tuple[float, float, float]
    orientation: str


class Grid(NamedTuple):
    """The number of a volume's voxels along i, j, k, their spacing in mm, and the directions in which its axes grow."""

    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    orientation: str


def grid_of(volume: Volume) -> Grid:
    i, j, k = volume.hu_IJK.shape
    return Grid((i, j, k), volume.spacing_mm, volume.orientation)


def geometry_of(affine: NDArray[np.float64], *, where: str) -> Geometry:
    """Returns the spacing and orientation in a volume's matrix from voxels to patient coordinates.

    Args:
        affine: The matrix, (4, 4) or (3, 3), to mm to the right, to the front and to the head; its origin is not used.

    >>> geometry_of(np.diag([-2.0, -2.0, 5.0]), where="example")
    Geometry(spacing_mm=(2.0, 2.0, 5.0), orientation='LPS')
    """
    axes = np.asarray(affine, dtype=np.float64)[:3, :3]
    if not np.isfinite(axes).all():
        raise ValueError(f"{where}: holds numbers that are not finite. Convert the scan again from its source.")
    lengths = np.linalg.norm(axes, axis=0)
    if lengths.min() <= 0:
        raise ValueError(
            f"{where}: no spacing (axis {int(lengths.argmin())} has length 0). Write the voxel size in mm."
        )
    units = axes / lengths
    cosines = units.T @ units
    for a, b in ((0, 1), (0, 2), (1, 2)):
        if abs(cosines[a, b]) > MAX_COSINE:
            degrees = float(np.degrees(np.arccos(np.clip(cosines[a, b], -1, 1))))
            raise ValueError(
                f"{where}: sheared, axes {a} and {b} meet at {degrees:.2f} degrees (a tilted gantry?). "
                "Resample the scan to a rectangular grid first."
            )
    nearest = [int(np.abs(units[:, axis]).argmax()) for axis in range(3)]
    if len(set(nearest)) < 3:
        raise ValueError(f"{where}: two axes are nearest to the same direction of the body. Resample the scan first.")
    letters = "".join("RAS"[n] if units[n, axis] > 0 else "LPI"[n] for axis, n in enumerate(nearest))
    i, j, k = (float(length) for length in lengths)
    return Geometry((i, j, k), letters)


def affine_of(volume: Volume) -> NDArray[np.float64]:
    """Returns the (4, 4) matrix of a volume's spacing and orientation, with its first voxel at the origin."""
    affine = np.zeros((4, 4))
    affine[3, 3] = 1.0
    for axis, (letter, length) in enumerate(zip(volume.orientation, volume.spacing_mm, strict=True)):
        direction, sign = _DIRECTIONS[letter]
        affine[direction, axis] = sign * length
    return affine


def reoriented(volume: Volume, orientation: str) -> Volume:
    """Returns the volume with its axes swapped and flipped to another orientation; no voxel changes its value.

    >>> reoriented(Volume(np.array([[[1, 2]]], np.int16), (2.0, 2.0, 5.0), "LPS"), "ISA").hu_IJK.ravel().tolist()
    Traceback (most recent call last):
    ValueError: 'ISA' names one direction of the body twice
    >>> reoriented(Volume(np.array([[[1, 2]]], np.int16), (2.0, 2.0, 5.0), "LPS"), "IPR").hu_IJK.ravel().tolist()
    [2, 1]
    """
    masks = {organ: np.ascontiguousarray(turned(mask, volume, orientation)) for organ, mask in volume.masks_IJK.items()}
    spacing_mm = turned_spacing(volume, orientation)
    hu_IJK = np.ascontiguousarray(turned(volume.hu_IJK, volume, orientation))
    return Volume(hu_IJK, spacing_mm, orientation, masks, volume.target)


def turned(values_IJK: NDArray[_Values], volume: Volume, orientation: str) -> NDArray[_Values]:
    """Returns a view of values on a volume's grid, with its axes swapped and flipped to another orientation."""
    axes, flips = _turn(volume.orientation, orientation)
    return np.flip(values_IJK.transpose(axes), flips)


def turned_spacing(volume: Volume | Grid, orientation: str) -> tuple[float, float, float]:
    """Returns a volume's spacing along the axes of another orientation, in mm."""
    i, j, k = (volume.spacing_mm[axis] for axis in _turn(volume.orientation, orientation)[0])
    return i, j, k


def turned_shape(grid: Grid, orientation: str) -> tuple[int, int, int]:
    """Returns the number of a volume's voxels along the axes of another orientation."""
    i, j, k = (grid.shape[axis] for axis in _turn(grid.orientation, orientation)[0])
    return i, j, k


def _turn(have_letters: str, want_letters: str) -> tuple[list[int], tuple[int, ...]]:
    if sorted(_DIRECTIONS[letter][0] for letter in want_letters) != [0, 1, 2]:
        raise ValueError(f"{want_letters!r} names one direction of the body twice")
    have = [_DIRECTIONS[letter] for letter in have_letters]
    want = [_DIRECTIONS[letter] for letter in want_letters]
    axes = [[direction for direction, _ in have].index(direction) for direction, _ in want]
    flips = tuple(n for n, (axis, (_, sign)) in enumerate(zip(axes, want, strict=True)) if have[axis][1] != sign)
    return axes, flips


def compact_hu(hu: NDArray[np.generic], *, where: str) -> NDArray[np.int16] | NDArray[np.float32]:
    """Returns Hounsfield units as int16 where that loses nothing, else as float32."""
    if hu.dtype == np.int16:
        return np.asarray(hu, dtype=np.int16)
    if not np.isfinite(hu).all():
        raise ValueError(f"{where}: voxels that are not finite (NaN or infinite). Convert the scan again.")
    limits = np.iinfo(np.int16)
    if hu.size and limits.min <= hu.min() and hu.max() <= limits.max:
        whole = hu.astype(np.int16)
        if np.array_equal(whole, hu):
            return whole
    if hu.size and max(abs(float(hu.min())), abs(float(hu.max()))) > _MOST:
        raise ValueError(f"{where}: voxels beyond {_MOST:g}, whose slope must be wrong. Convert the scan again.")
    return hu.astype(np.float32)
