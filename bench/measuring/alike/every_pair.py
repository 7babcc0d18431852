"""Compares every two images at every place: the plain way that `medtune.data.prepared.same_picture` is measured by.

The middle of one image is searched for in the other by the correlation of their fine detail, small first; only pairs
that still correlate are compared in a larger size.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, groupby, islice

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from scipy.fft import irfft2, rfft2
from scipy.ndimage import gaussian_filter

STAGES = ((32, 0.5), (64, 0.55), (128, 0.75))
_LARGEST, _SMOOTH, _LEAST_DETAIL, _AT_ONCE, _KEPT = 128, 3 / 128, 3.0, 64, 1024


def same_pairs(images: Sequence[PIL.Image.Image]) -> set[tuple[int, int]]:
    """Returns the pairs of images, by their places, of which the middle of the one is found in the other."""
    scale = _LARGEST / float(np.median([max(image.size) for image in images]))
    small = [
        image.convert("L").resize(
            [min(max(round(edge * scale), 8), 3 * _LARGEST // 2) for edge in image.size], PIL.Image.Resampling.BOX
        )
        for image in images
    ]
    pairs = list(combinations(range(len(images)), 2))
    for side, least in STAGES:
        pairs = sorted(set(_alike([_fine(image, side) for image in small], pairs, side, least)))
    return set(pairs)


def _fine(image: PIL.Image.Image, side: int) -> NDArray[np.float32]:
    w, h = (max(4, round(edge * side / _LARGEST)) for edge in image.size)
    small = np.asarray(image.resize((w, h), PIL.Image.Resampling.BOX), dtype=np.float32)
    return np.asarray(small - gaussian_filter(small, max(1.0, _SMOOTH * side)), dtype=np.float32)


def _alike(
    images: Sequence[NDArray[np.float32]], pairs: Sequence[tuple[int, int]], side: int, least: float
) -> Iterator[tuple[int, int]]:
    padded, edge = 3 * side // 2 + 1, side // 2

    @lru_cache(maxsize=_KEPT)
    def searched(place: int) -> tuple[NDArray[np.complex64], NDArray[np.float32]]:
        image_HW = images[place]
        sums, squares = (np.pad(each, ((1, 0), (1, 0))).cumsum(0).cumsum(1) for each in (image_HW, image_HW**2))
        length = np.full((padded, padded), np.inf, dtype=np.float32)
        if min(image_HW.shape) >= edge:
            total, square = (
                c[edge:, edge:] - c[:-edge, edge:] - c[edge:, :-edge] + c[:-edge, :-edge] for c in (sums, squares)
            )
            h, w = total.shape
            length[:h, :w] = np.sqrt(np.maximum(square - total**2 / edge**2, (_LEAST_DETAIL * edge) ** 2))
        return rfft2(image_HW, (padded, padded)), length

    def found(one: int, others: Sequence[int]) -> NDArray[np.float32]:
        h, w = images[one].shape
        if min(h, w) < edge:
            return np.zeros(len(others), dtype=np.float32)
        top, left = (h - edge) // 2, (w - edge) // 2
        middle = images[one][top : top + edge, left : left + edge]
        middle = middle - middle.mean()
        wanted = np.conj(rfft2(middle / max(float(np.linalg.norm(middle)), _LEAST_DETAIL * edge), (padded, padded)))
        spectra, lengths = zip(*map(searched, others), strict=True)
        correlation = irfft2(np.stack(spectra) * wanted, (padded, padded)) / np.stack(lengths)
        highest: NDArray[np.float32] = correlation.max(axis=(1, 2))
        return highest

    for first, group in groupby(sorted([*pairs, *((other, one) for one, other in pairs)]), key=lambda pair: pair[0]):
        while others := [other for _, other in islice(group, _AT_ONCE)]:
            for other, value in zip(others, found(first, others), strict=True):
                if value >= least:
                    yield min(first, other), max(first, other)
