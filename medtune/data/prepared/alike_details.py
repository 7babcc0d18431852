"""Finds for each picture those whose fine detail is most alike wherever it lies, and how far the one lies moved.

A picture that is moved or cropped keeps the strength of each frequency and changes its phase. The strengths of all
pictures are compared by one product of matrices; what most pictures of a set have in common is taken away first, so
that radiographs of one view are not alike for their ribs. The phases of two alike pictures then say how far one lies
moved (phase correlation: Kuglin and Hines, The phase correlation image alignment method, 1975).

Shapes: N pictures, F frequencies, K nearest pictures, P pairs, H height, W width.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 64
"""The longer edge, in pixels, of the pictures whose frequencies are taken; our own choice."""
NEAREST = 8
"""The number of pictures that each is compared with in detail.

Source: measured on 429 pictures of BUSI, VQA-RAD, HC18 and a phantom and on 2,000 simulated radiographs and as many
    breast scans: a copy that `MIN_CORRELATION` tells was nearest or second nearest in all of eleven kinds of change.
"""
MIN_PEAK = 0.15
"""The smallest correlation of two pictures' phases; where they were measured, copies have 0.20 to 0.95."""
MOST_TRIED, SURE_PEAK = 4, 0.4
"""The number of pictures, those whose phases agree best, that each is compared with pixel by pixel, and the correlation
from which it is compared with more; of different simulated radiographs of one view one in ten has as much."""
_BAND = (0.06, 0.33)  # Cycles a pixel: what is coarser patients have in common, what is finer does not outlive scaling.
_ENVELOPE, _MOST_CONTRAST, _NOISE = 3.0, 2.5, 1.5
_VALUES_AT_ONCE, _ALIKE = 2**23, 0.1

_FREQUENCY_HW = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None])
_BAND_HW = (_BAND[0] < _FREQUENCY_HW) & (_BAND[1] > _FREQUENCY_HW)
NUM_FREQUENCIES = int(_BAND_HW.sum())


class Shifted(NamedTuple):
    """How far a picture's detail lies moved in another one, in pixels of the small pictures, and how surely."""

    down: int
    right: int
    peak: float


def detail_spectrum(detail_HW: NDArray[np.float32]) -> NDArray[np.complex64]:
    """Returns the frequencies of a small picture's fine detail, (F,), each in units of its neighbours' strength.

    The contrast is evened out first, so that no border or drawn cross outweighs the rest.
    """
    from scipy.fft import rfft2
    from scipy.ndimage import gaussian_filter

    contrast_HW = np.sqrt(gaussian_filter(detail_HW**2, SIDE / 10) + _NOISE**2)
    even_HW = np.clip(detail_HW / contrast_HW, -_MOST_CONTRAST, _MOST_CONTRAST)
    # A larger picture is laid over itself, which changes no frequency that is taken.
    tall, wide = (-(-edge // SIDE) for edge in even_HW.shape)
    whole_HW = np.pad(
        even_HW, [(0, many * SIDE - edge) for many, edge in zip((tall, wide), even_HW.shape, strict=True)]
    )
    spectrum_HW = rfft2(whole_HW.reshape(tall, SIDE, wide, SIDE).sum((0, 2)))
    strength_HW = gaussian_filter(np.abs(spectrum_HW), _ENVELOPE, mode="wrap")
    spectrum_F: NDArray[np.complex64] = (spectrum_HW / np.maximum(strength_HW, 1e-6))[_BAND_HW].astype(np.complex64)
    return spectrum_F


def nearest_details(
    spectra_NF: NDArray[np.complex64], group_N: NDArray[np.intp]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yields each picture with the at most `NEAREST` pictures of other groups whose detail is most alike."""
    count = len(spectra_NF)
    strength_NF = np.asarray(np.abs(spectra_NF))
    strength_NF -= strength_NF.mean(axis=0)
    strength_NF /= np.maximum(strength_NF.std(axis=0), 1e-6)
    strength_NF /= np.maximum(np.linalg.norm(strength_NF, axis=1, keepdims=True), 1e-6)
    by_group_N = np.argsort(group_N, kind="stable")
    first_N, last_N = (np.searchsorted(group_N[by_group_N], group_N, side=side) for side in ("left", "right"))
    num_rows = max(1, _VALUES_AT_ONCE // count)
    for start in range(0, count, num_rows):
        for place, alike_N in enumerate(strength_NF[start : start + num_rows] @ strength_NF.T, start):
            alike_N[by_group_N[first_N[place] : last_N[place]]] = -np.inf
            # Most are far less alike than the nearest, which are then found among few.
            few = np.flatnonzero(alike_N >= _ALIKE)
            few = few if len(few) >= NEAREST else np.flatnonzero(alike_N > -np.inf)
            if len(few) > NEAREST:
                few = few[np.argpartition(alike_N[few], -NEAREST)[-NEAREST:]]
            yield place, few


def shifts(spectrum_F: NDArray[np.complex64], others_PF: NDArray[np.complex64]) -> list[Shifted]:
    """Returns how far the detail of one picture lies moved in each of several others."""
    from scipy.fft import irfft2

    crossed_PHW = np.zeros((len(others_PF), *_BAND_HW.shape), dtype=np.complex64)
    crossed_PHW[:, _BAND_HW] = others_PF * np.conj(spectrum_F)
    moved_PHW = irfft2(crossed_PHW, (SIDE, SIDE))
    best_P = moved_PHW.reshape(len(others_PF), -1).argmax(axis=1)
    # Each frequency of the band stands for itself and for its conjugate.
    whole_P = 2 * np.linalg.norm(spectrum_F) * np.linalg.norm(others_PF, axis=1) / SIDE**2
    found = []
    for moved_HW, best, whole in zip(moved_PHW, best_P, whole_P, strict=True):
        down, right = divmod(int(best), SIDE)
        peak = float(moved_HW[down, right] / max(whole, 1e-12))
        # The picture repeats, so that half of the places mean up or left.
        found.append(Shifted((down + SIDE // 2) % SIDE - SIDE // 2, (right + SIDE // 2) % SIDE - SIDE // 2, peak))
    return found
