from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.media.masks import (
    NINE_CELLS,
    Mask,
    box_size,
    cell_of_box,
    fill_outline,
    largest_region,
    outer_box,
    read_mask,
)
from medtune.data.types import Box, Size


def _save(path: Path, values_HW: list[list[int]]) -> Path:
    PIL.Image.fromarray(np.array(values_HW, np.uint8)).save(path)
    return path


def _ring(height: int = 60, width: int = 80) -> Mask:
    y_HW, x_HW = np.mgrid[:height, :width]
    distance_HW = np.hypot((x_HW - 40) / 30, (y_HW - 30) / 20)
    return np.asarray(np.abs(distance_HW - 1) < 0.06)


def test_mask_of_zero_and_one_and_of_grey_edges(tmp_path: Path) -> None:
    ones = _save(tmp_path / "ones.png", [[0, 1]])
    edges = _save(tmp_path / "edges.png", [[127, 200]])
    for path in (ones, edges):
        assert read_mask(path, Size(2, 1)).tolist() == [[False, True]]


def test_mask_of_another_size_names_both_sizes(tmp_path: Path) -> None:
    mask = _save(tmp_path / "mask.png", [[0, 255, 0]])
    with pytest.raises(ValueError, match=r"mask\.png: .* 3 x 1 .*its image is 5 x 4"):
        read_mask(mask, Size(5, 4))


def test_mask_of_other_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="highest value is 2"):
        read_mask(_save(tmp_path / "labels.png", [[0, 2]]), Size(2, 1))


def test_outline_is_filled() -> None:
    ring_HW = _ring()
    filled_HW = fill_outline(ring_HW)
    assert filled_HW[30, 40]
    assert not filled_HW[0, 0]
    assert outer_box(filled_HW) == outer_box(ring_HW)


@pytest.mark.parametrize("part", [np.s_[20:, :], np.s_[:, 30:], np.s_[:40, :50]])
def test_outline_cut_by_the_edge_is_closed_along_it(part: tuple[slice, slice]) -> None:
    whole_HW = fill_outline(_ring())
    assert np.array_equal(fill_outline(_ring()[part]), whole_HW[part])


def test_open_outline_is_refused() -> None:
    ring_HW = _ring()
    ring_HW[:, 36:44] = False
    with pytest.raises(ValueError, match="wanted a closed outline"):
        fill_outline(ring_HW)


def test_filled_and_empty_masks_are_no_outlines() -> None:
    with pytest.raises(ValueError, match="already filled"):
        fill_outline(fill_outline(_ring()))
    with pytest.raises(ValueError, match="the mask is empty"):
        fill_outline(np.zeros((4, 4), np.bool_))


def test_largest_region_counts_diagonals() -> None:
    mask_HW = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], np.bool_)
    assert largest_region(mask_HW).tolist() == [[True, False, False, False], [False, True, False, False], [False] * 4]
    assert not largest_region(np.zeros((2, 2), np.bool_)).any()


def test_empty_mask_has_no_box() -> None:
    assert outer_box(np.zeros((3, 3), np.bool_)) is None


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30), st.integers(1, 30))
def test_outer_box_of_a_rectangle_is_the_rectangle(x0: int, y0: int, width: int, height: int) -> None:
    mask_HW = np.zeros((64, 64), np.bool_)
    mask_HW[y0 : y0 + height, x0 : x0 + width] = True
    assert outer_box(mask_HW) == Box(x0, y0, x0 + width, y0 + height)


@pytest.mark.parametrize(
    ("centre", "cell"),
    [
        ((44, 44), "upper left"), ((45, 44), "upper center"), ((54, 44), "upper center"), ((55, 44), "upper right"),
        ((44, 45), "middle left"), ((50, 50), "center"), ((55, 54), "middle right"), ((10, 55), "lower left"),
        ((45, 55), "lower center"), ((99, 99), "lower right"),
    ],
)  # fmt: skip
def test_nine_cells_cut_at_45_and_55_percent(centre: tuple[int, int], cell: str) -> None:
    x, y = centre
    assert cell_of_box(Box(x - 1, y - 1, x + 1, y + 1), 100, 100) == cell


@given(st.data(), st.integers(1, 500), st.integers(1, 500))
def test_mirrored_boxes_have_mirrored_cells(data: st.DataObject, width: int, height: int) -> None:
    x0 = data.draw(st.integers(0, width - 1))
    x1 = data.draw(st.integers(x0 + 1, width))
    y0 = data.draw(st.integers(0, height - 1))
    y1 = data.draw(st.integers(y0 + 1, height))
    cell = cell_of_box(Box(x0, y0, x1, y1), width, height)
    assert cell in NINE_CELLS
    # 0.45 belongs to the middle and 0.55 does not: a centre on a line has no mirror image.
    if 10 * (x0 + x1) not in (9 * width, 11 * width):
        mirrored = cell_of_box(Box(width - x1, y0, width - x0, y1), width, height)
        swapped = cell.replace("left", "*").replace("right", "left").replace("*", "right")
        assert mirrored == swapped


def test_sizes_cut_at_5_and_15_percent() -> None:
    assert [box_size(Box(0, 0, 10, n), 100, 10) for n in (1, 5, 10)] == ["small", "medium", "medium"]
    assert [box_size(Box(0, 0, n, 10), 100, 10) for n in (4, 5, 14, 15)] == ["small", "medium", "medium", "large"]
