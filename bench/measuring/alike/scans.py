"""Draws chest-like and breast-like pictures that resemble each other as such scans do, and changed copies of them."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import PIL.Image
import PIL.ImageDraw
from numpy.typing import NDArray

SIDE = 192
Draw = Callable[[int], PIL.Image.Image]
Change = Callable[[PIL.Image.Image], PIL.Image.Image]


@cache
def _thorax() -> PIL.Image.Image:
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE - 0.5
    grey = 150 + 60 * np.exp(-((x / 0.07) ** 2)) + 80 * np.clip(y - 0.25, 0, 1)
    for side in (-1, 1):
        across = x - 0.2 * side
        grey -= 90 / (1 + np.exp(((across / 0.14) ** 2 + (y / 0.33) ** 2 - 1) * 12))
        for rib in range(8):
            bow = y + 0.35 - 0.085 * rib + 1.4 * across**2 - 0.25 * side * across
            grey += 22 * np.exp(-((bow / 0.012) ** 2)) * (np.abs(across) < 0.2)
    heart = 30 * np.exp(-((x + 0.06) ** 2 / 0.02 + (y - 0.12) ** 2 / 0.03))
    return PIL.Image.fromarray((grey + heart).astype(np.float32))


def chest_like(number: int) -> PIL.Image.Image:
    """Returns a radiograph-like picture: one thorax for all, placed and textured otherwise."""
    draw = np.random.default_rng([1, number])
    size, left, top = 1 + draw.normal(0, 0.03), *draw.normal(0, 0.015 * SIDE, 2)
    shift = (1 - size) * SIDE / 2
    placed = _thorax().transform(
        (SIDE, SIDE),
        PIL.Image.Transform.AFFINE,
        (size, 0, shift + left, 0, size, shift + top),
        PIL.Image.Resampling.BILINEAR,
    )
    grey = np.array(placed)
    for cells, contrast in ((24, 10), (48, 7), (96, 5)):
        grey += contrast * _texture(draw, cells)
    return _picture(grey + draw.normal(0, 5, grey.shape))


def breast_like(number: int) -> PIL.Image.Image:
    """Returns an ultrasound-like picture: layers and a dark lesion in speckle."""
    draw = np.random.default_rng([2, number])
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    deep = y + 0.02 * _texture(draw, 6)
    grey = 60 + 70 * np.exp(-(((deep - 0.05) / 0.04) ** 2)) + 25 * np.sin(40 * deep) * (deep < 0.7)
    grey += 50 * np.exp(-(((deep - 0.75 - draw.normal(0, 0.03)) / 0.05) ** 2))
    at, wide = draw.uniform(0.3, 0.6, 2), draw.uniform(0.05, 0.13, 2)
    inside = ((x - at[0]) / wide[0]) ** 2 + ((deep - at[1]) / wide[1]) ** 2
    grey *= 1 - 0.8 * np.exp(-(np.minimum(inside, 9) ** 2))
    speckle = np.hypot(_texture(draw, SIDE // 3), _texture(draw, SIDE // 3))
    return _picture(grey * speckle**0.8)


def _texture(draw: np.random.Generator, cells: int) -> NDArray[np.float32]:
    coarse = PIL.Image.fromarray(draw.standard_normal((cells, cells), dtype=np.float32))
    fine = np.asarray(coarse.resize((SIDE, SIDE), PIL.Image.Resampling.BICUBIC))
    return np.asarray(fine / fine.std(), dtype=np.float32)


def _picture(grey: NDArray[np.floating]) -> PIL.Image.Image:
    return PIL.Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8))


def _cropped(left: float, top: float, right: float, bottom: float) -> Change:
    return lambda image: image.crop(
        (int(left * image.width), int(top * image.height), int(right * image.width), int(bottom * image.height))
    )


def _moved(right: float, down: float) -> Change:
    def change(image: PIL.Image.Image) -> PIL.Image.Image:
        black = PIL.Image.new(image.mode, image.size)
        black.paste(image, (int(right * image.width), int(down * image.height)))
        return black

    return change


def _drawn_on(image: PIL.Image.Image) -> PIL.Image.Image:
    drawn = _cropped(0.07, 0, 1, 0.93)(image)
    pen = PIL.ImageDraw.Draw(drawn)
    for x, y in ((0.35, 0.4), (0.6, 0.45), (0.5, 0.3), (0.45, 0.65)):
        at, arm = (int(x * drawn.width), int(y * drawn.height)), drawn.width // 60
        pen.line((at[0] - arm, at[1], at[0] + arm, at[1]), fill=255)
        pen.line((at[0], at[1] - arm, at[0], at[1] + arm), fill=255)
    return drawn


SCANS: Mapping[str, Draw] = {"chest-like": chest_like, "breast-like": breast_like}
CHANGES: Mapping[str, Change] = {
    "cropped on the left by 10 %": _cropped(0.1, 0, 1, 1),
    "cropped below by 20 %": _cropped(0, 0, 1, 0.8),
    "cropped around by 10 %": _cropped(0.05, 0.05, 0.95, 0.95),
    "cropped around by 20 %": _cropped(0.1, 0.1, 0.9, 0.9),
    "moved by 15 %": _moved(0.15, 0),
    "moved by 15 % and up": _moved(-0.15, -0.05),
    "cropped and drawn on": _drawn_on,
}
"""The changes by which copies are planted."""
