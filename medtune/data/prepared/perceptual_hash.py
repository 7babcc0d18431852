"""Computes the perceptual hash by which look-alikes are found.

Shapes: H height, W width, C channels.
"""

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.prepared.lookalikes import MIN_SPAN

_SIDE = 32


def perceptual_hash(pixels_HWC: NDArray[np.uint8]) -> int | None:
    """Returns the 64 bit hash of an image, which hardly changes if the image is scaled, compressed or annotated.

    The image is made grey and scaled to 32 x 32 pixels (Lanczos). Of its cosine transform (type 2, along both axes) the
    8 x 8 coefficients of lowest frequency are taken, with the mean of the image. Each bit says whether a coefficient is
    above their median, row by row, the first in the highest bit.

    Returns None for a flat image, whose small copy spans fewer than `MIN_SPAN` grey values: its coefficients are noise,
    and it would look like every other flat image.

    Source: `imagehash.phash` with its defaults (hash_size 8, highfreq_factor 4).
    """
    import imagehash

    small = PIL.Image.fromarray(pixels_HWC).convert("L").resize((_SIDE, _SIDE), PIL.Image.Resampling.LANCZOS)
    if np.ptp(np.asarray(small).astype(int)) < MIN_SPAN:
        return None
    # The hash scales to 32 x 32 itself, which leaves an image of that size as it is.
    return int.from_bytes(np.packbits(imagehash.phash(small).hash).tobytes(), "big")
