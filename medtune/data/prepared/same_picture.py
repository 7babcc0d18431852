"""Finds images that show the same picture moved, cropped or drawn on, which a hash of the whole image lets through.

The middle of an image is searched for in the other one, at every place, by the correlation of what is finer than a
fortieth of the image: what different patients have in common, such as layers of tissue, is coarser, and the speckle of
two scans is never the same. Pairs are compared small first, and only those that still correlate in a larger size.

Shapes: N images, H height, W width.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.prepared.lookalikes import Look

MIN_CORRELATION = 0.75
"""The smallest correlation of one picture.

Source: measured on 60 images of BUSI, 315 of VQA-RAD (radiographs and scans) and 24 heads of different fetuses (HC18):
    of 52,000 pairs of different pictures none has as much. Of copies of BUSI's that are cropped by 10 to 20 %, moved by
    15 % or cropped and drawn on with calipers, 82 to 98 in 100 have it, and 0 to 48 in 100 have a hash within 8 bits.
"""
_STAGES: tuple[tuple[int, float], ...] = ((32, 0.5), (64, 0.55), (128, MIN_CORRELATION))
MOST_IMAGES, _MOST_PAIRS = 20_000, 1_000_000
_LARGEST = _STAGES[-1][0]
_SMOOTH = 3 / 128
# The smallest standard deviation of the fine detail, in grey values of 256; what has less is flat, and noise.
_LEAST_DETAIL = 3.0
_AT_ONCE, _KEPT_BYTES = 64, 2**28

Pair = tuple[str, str]
Picture = NDArray[np.uint8]


def same_pictures(
    looks: Mapping[str, Look], opened: Callable[[str], PIL.Image.Image], *, known: Callable[[str, str], bool]
) -> list[Pair]:
    """Returns the pairs of images that show the same picture.

    With more than a million pairs, those are compared whose hashes are nearest; of more than `MOST_IMAGES` images none.

    Args:
        known: Whether two images are known to look alike, so that they need not be compared.
    """
    names = sorted(name for name, look in looks.items() if isinstance(look, int))
    if not 1 < len(names) <= MOST_IMAGES:
        return []
    images = _thumbnails(names, opened)
    codes_N = np.array([looks[name] for name in names], dtype=np.uint64)
    pairs: Iterable[tuple[int, int]] = _nearest(codes_N)
    pairs = [pair for pair in pairs if not known(names[pair[0]], names[pair[1]])]
    for side, least in _STAGES:
        pairs = sorted(set(_alike([_fine(each, side) for each in images], pairs, side, least)))
    return [(names[one], names[other]) for one, other in pairs]


def _thumbnails(names: Sequence[str], opened: Callable[[str], PIL.Image.Image]) -> list[Picture]:
    """Returns the images on one scale, so that a cropped copy is not stretched: half of them fit into `_LARGEST`."""

    # One image at a time is open and in memory.
    def size(name: str) -> tuple[int, int]:
        with opened(name) as image:
            return image.size

    def thumbnail(name: str) -> Picture:
        with opened(name) as image:
            w, h = (min(max(round(edge * scale), 8), 3 * _LARGEST // 2) for edge in image.size)
            return np.asarray(image.convert("L").resize((w, h), PIL.Image.Resampling.BOX))

    scale = _LARGEST / float(np.median([max(size(name)) for name in names]))
    return [thumbnail(name) for name in names]


def _nearest(codes_N: NDArray[np.uint64]) -> list[tuple[int, int]]:
    apart = [np.bitwise_count(codes_N[place + 1 :] ^ code) for place, code in enumerate(codes_N)]
    counts = np.cumsum(np.sum([np.bincount(each, minlength=65) for each in apart], axis=0))
    farthest = int(np.searchsorted(counts, _MOST_PAIRS, side="right")) - 1 if counts[-1] > _MOST_PAIRS else 64
    return [(place, place + 1 + int(k)) for place, each in enumerate(apart) for k in np.flatnonzero(each <= farthest)]


def _fine(image: Picture, side: int) -> NDArray[np.float32]:
    from scipy.ndimage import gaussian_filter

    h, w = (max(4, round(edge * side / _LARGEST)) for edge in image.shape)
    small = np.asarray(PIL.Image.fromarray(image).resize((w, h), PIL.Image.Resampling.BOX), dtype=np.float32)
    return np.asarray(small - gaussian_filter(small, max(1.0, _SMOOTH * side)), dtype=np.float32)


def _alike(
    images: Sequence[NDArray[np.float32]], pairs: Sequence[tuple[int, int]], side: int, least: float
) -> Iterator[tuple[int, int]]:
    """Yields the pairs of which the middle of one image is found in the other."""
    from scipy.fft import irfft2, rfft2

    padded, edge = 3 * side // 2 + 1, side // 2

    @lru_cache(maxsize=_KEPT_BYTES // (padded * padded * 8))
    def searched(place: int) -> tuple[NDArray[np.complex64], NDArray[np.float32]]:
        """Returns the spectrum of an image, and the length of the deviations in a window at each place."""
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
