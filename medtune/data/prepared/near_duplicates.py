"""Finds images in different splits that look alike; they are reported and left for a person to decide about.

Shapes: H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.types import SPLITS, Split

MAX_DISTANCE = 4
MAX_LISTED = 100


class NearDuplicate(NamedTuple):
    """Two images in different splits that look alike, by the digests that name their files."""

    first: str
    second: str
    distance: int


class NearDuplicates(NamedTuple):
    """The number of image pairs that look alike across splits, and the closest of these pairs."""

    num_pairs: int
    max_distance: int
    closest: tuple[NearDuplicate, ...]


def perceptual_hash(pixels_HWC: NDArray[np.uint8]) -> int:
    """Returns the 64 bit difference hash by which near-duplicates are found: similar for scaled or compressed copies.

    Source: `imagehash.dhash`, 8 x 8.
    """
    import imagehash

    bits_HW = imagehash.dhash(PIL.Image.fromarray(pixels_HWC)).hash
    return int.from_bytes(np.packbits(bits_HW).tobytes(), "big")


def near_duplicates(
    hashes: Mapping[str, int],
    splits: Mapping[str, Split],
    *,
    max_distance: int = MAX_DISTANCE,
    max_listed: int = MAX_LISTED,
) -> NearDuplicates:
    """Returns the pairs of images in different splits whose perceptual hashes differ in few of 64 bits.

    Args:
        hashes: The perceptual hash of each image, by its digest.
        splits: The split of each image, by its digest.
        max_distance: The highest number of bits in which a pair may differ; the default is our own choice.
        max_listed: The highest number of pairs that are listed, closest first and then by digest.
    """
    digests = sorted(hashes)
    codes = np.array([hashes[digest] for digest in digests], dtype=np.uint64)
    places = np.array([SPLITS.index(splits[digest]) for digest in digests])
    num_pairs = 0
    closest: list[NearDuplicate] = []
    for index in range(len(digests) - 1):
        distances = np.bitwise_count(codes[index + 1 :] ^ codes[index])
        alike = np.flatnonzero((distances <= max_distance) & (places[index + 1 :] != places[index]))
        num_pairs += len(alike)
        closest.extend(
            NearDuplicate(digests[index], digests[index + 1 + offset], int(distances[offset])) for offset in alike
        )
        # A video cut into frames has millions of pairs, so that only the closest are kept on the way.
        if len(closest) > 100 * max_listed:
            closest = _closest(closest, max_listed)
    return NearDuplicates(num_pairs, max_distance, tuple(_closest(closest, max_listed)))


def _closest(pairs: list[NearDuplicate], count: int) -> list[NearDuplicate]:
    return sorted(pairs, key=lambda pair: (pair.distance, pair))[:count]
