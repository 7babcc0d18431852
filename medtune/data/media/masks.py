"""Reads mask images and turns masks into boxes, and boxes into words for their place and size.

Shapes: H height, W width; masks are bool, True where marked.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.images import decode_image
from medtune.data.types import Box, Size

Mask = NDArray[np.bool_]
BoxSize = Literal["small", "medium", "large"]

NOT_VISIBLE = "not visible"
NINE_CELLS = (
    "upper left",
    "upper center",
    "upper right",
    "middle left",
    "center",
    "middle right",
    "lower left",
    "lower center",
    "lower right",
)
LOCATIONS = (*NINE_CELLS, NOT_VISIBLE)
LOW, HIGH = 0.45, 0.55
SMALL_BELOW = 0.05
LARGE_FROM = 0.15
MARGIN_MM = 20.0
"""The margin of a crop around organs. Source: as in `medtune.data.media.volumes.transforms.organ_crop`."""
TARGETS = ("kidney_left", "kidney_right", "liver", "pancreas")
"""The organs that are cropped to by default. Source: the seed paper's Table 4 is about lesions of these organs."""

_OPPOSITE = {"left": "right", "right": "left"}
_ADJECTIVES = {
    "kidney": "renal", "liver": "hepat", "spleen": "splen", "stomach": "gastr", "lung": "pulmon", "heart": "cardi",
}  # fmt: skip
_STEM = 5
_SIDES = r"(?:left|right)(?:\W+(?:and|or|the|with|left|right))*"
OF_CONSTRUCTION = "of construction: "
"""The beginning of a mask's name that no model can ask for; a mask of lesions would give the answers away."""


def read_mask(path: Path, size: Size) -> Mask:
    """Returns the mask of an image of that size, (H, W): pixels above 127, or above 0 where the highest value is 1."""
    grey_HW = decode_image(path).pixels_HWC.max(axis=2)
    height, width = grey_HW.shape
    if (width, height) != size:
        raise ValueError(
            f"{path}: this mask is {width} x {height} pixels, its image is {size.width} x {size.height}. "
            "Mask and image must have one size: take both from the same release."
        )
    brightest = int(grey_HW.max())
    if 1 < brightest <= 127:
        raise ValueError(f"{path}: wanted a mask of 0 and 255 (or 0 and 1), its highest value is {brightest}.")
    return np.asarray(grey_HW > (0 if brightest == 1 else 127))


def fill_outline(mask_HW: Mask) -> Mask:
    """Returns a drawn outline as a filled mask; an outline cut by the edge of the image is closed along that edge."""
    if not mask_HW.any():
        raise ValueError("wanted an outline, the mask is empty. Take the file from the release again.")
    from scipy.ndimage import binary_fill_holes

    sides = ((int(mask_HW[0].any()), int(mask_HW[-1].any())), (int(mask_HW[:, 0].any()), int(mask_HW[:, -1].any())))
    walled_HW = np.pad(mask_HW, sides, constant_values=True)
    (top, _), (left, _) = sides
    height, width = mask_HW.shape
    filled_HW: Mask = binary_fill_holes(walled_HW)[top : top + height, left : left + width]
    drawn, enclosed = int(mask_HW.sum()), int(filled_HW.sum() - mask_HW.sum())
    if enclosed < drawn:
        raise ValueError(
            f"wanted a closed outline, this one draws {drawn} pixels and encloses {enclosed}. "
            "It is open somewhere, or already filled: take the outlines of the release."
        )
    return filled_HW


def largest_region(mask_HW: Mask) -> Mask:
    """Returns the connected region of a mask (diagonals count) with most pixels, of equal ones the first from above."""
    from scipy.ndimage import label

    labels_HW, _ = label(mask_HW, structure=np.ones((3, 3)))
    sizes = np.bincount(labels_HW.ravel())
    sizes[0] = 0
    return np.asarray(labels_HW == sizes.argmax()) & mask_HW


def outer_box(mask_HW: Mask) -> Box | None:
    """Returns the smallest box around all marked pixels of a mask, x1 and y1 outside; None for an empty mask.

    >>> mask_HW = np.zeros((4, 5), dtype=np.bool_)
    >>> mask_HW[1:3, 2:5] = True
    >>> outer_box(mask_HW)
    Box(x0=2, y0=1, x1=5, y1=3)
    """
    columns = np.flatnonzero(mask_HW.any(axis=0))
    rows = np.flatnonzero(mask_HW.any(axis=1))
    if not columns.size:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def cell_of_box(box: Box, width: int, height: int) -> str:
    """Returns the cell of the image in which a box's centre lies, e.g. "upper left" or "center".

    Left and upper cells end at 0.45 of the width and height, right and lower cells begin at 0.55.

    >>> cell_of_box(Box(0, 0, 10, 10), 100, 100), cell_of_box(Box(40, 90, 60, 100), 100, 100)
    ('upper left', 'lower center')

    Source: U2-Bench's evaluation code, dolphin-sound/u2-bench-evalkit eval_func/seg_eval_v1.1.py.
    """
    column = _third(box.x0 + box.x1, width)
    row = _third(box.y0 + box.y1, height)
    return NINE_CELLS[3 * row + column]


def cell_of_point(x: float, y: float) -> str:
    """Returns the cell of the image in which a point lies, given in shares of width (to the right) and height (down).

    >>> cell_of_point(0.45, 0.5), cell_of_point(0.55, 0.44), cell_of_point(0.1, 0.5)
    ('center', 'upper right', 'middle left')

    Source: as for `cell_of_box`.
    """
    return NINE_CELLS[3 * sum(y >= end for end in (LOW, HIGH)) + sum(x >= end for end in (LOW, HIGH))]


def box_size(box: Box, width: int, height: int) -> BoxSize:
    """Returns the size of a box in words: small below 5 % of the image, large from 15 % on, medium between.

    The thresholds are our own; benchmarks report these three sizes without stating thresholds.

    >>> box_size(Box(0, 0, 20, 20), 100, 100), box_size(Box(0, 0, 50, 50), 100, 100)
    ('small', 'large')
    """
    return size_of_share((box.x1 - box.x0) * (box.y1 - box.y0) / (width * height))


def size_of_share(share: float) -> BoxSize:
    """Returns the size in words of a box that covers a share of its image, as `box_size` does."""
    if share < SMALL_BELOW:
        return "small"
    return "large" if share >= LARGE_FROM else "medium"


def _third(twice_centre: int, length: int) -> int:
    # The comparison uses whole numbers, because 0.45 and 0.55 have no exact float and a centre may lie on them.
    return int(20 * twice_centre >= 18 * length) + int(20 * twice_centre >= 22 * length)


def masks_of(organ: str, masks: Iterable[str]) -> tuple[str, ...]:
    """Returns the masks whose names contain every word of an organ's name, in their order; none for "".

    >>> masks_of("kidney", ["kidney_left", "kidney_right", "liver"])
    ('kidney_left', 'kidney_right')
    >>> masks_of("left kidney", ["kidney_left", "kidney_right", "liver"])
    ('kidney_left',)
    """
    words = set(organ.lower().split())
    return tuple(mask for mask in masks if words and words <= set(mask.lower().split("_")))


def named_masks(text: str, masks: Iterable[str]) -> tuple[str, ...]:
    """Returns the masks of the organs that a text names, in their order; of a pair both, unless it names a side.

    Example:
        >>> named_masks("Is it right that the left renal cyst grew?", ["kidney_left", "kidney_right", "liver"])
        ('kidney_left',)
        >>> named_masks("Is the left kidney larger or the right kidney?", ["kidney_left", "kidney_right", "liver"])
        ('kidney_left', 'kidney_right')
    """
    said = text.lower()
    return tuple(mask for mask in masks if _is_named(mask.lower().split("_"), said))


def _is_named(words: Sequence[str], said: str) -> bool:
    stems = [{word[:_STEM], _ADJECTIVES.get(word, word[:_STEM])} for word in words if word not in _OPPOSITE]
    organ = r"\s?".join(f"(?:{'|'.join(sorted(stem))})[a-z]*?" for stem in stems)
    if not stems or re.search(rf"\b{organ}", said) is None:
        return False
    beside = re.findall(rf"\b({_SIDES})\W+{organ}|\b{organ}[a-z]*\W+(?:on the |of the )?({_SIDES})\b", said)
    sides = {side for found in beside for side in re.findall("left|right", " ".join(found))}
    return not sides or not set(words) & set(_OPPOSITE) or bool(sides & set(words))


def other_side(mask: str) -> str:
    """Returns the name of the organ mask on the other side of the body; an organ without sides keeps its name.

    >>> [other_side(mask) for mask in ("kidney_left", "rib_right_1", "liver")]
    ['kidney_right', 'rib_left_1', 'liver']
    """
    return "_".join(_OPPOSITE.get(word, word) for word in mask.split("_"))
