"""Joins look-alikes into groups, and finds look-alikes between two sets of images.

All pairs are compared, so that none is missed: 100,000 images take some seconds on one core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.prepared.lookalikes.perceptual_hash import MAX_DISTANCE

_MAX_EDGES = 200_000


class LookalikeGroups(NamedTuple):
    """The groups into which images fall if every two look-alikes are in one group.

    Attributes:
        group_of: The name of each image's group, which is the smallest name of its images.
        num_pairs: The number of pairs of look-alikes.
    """

    group_of: Mapping[str, str]
    num_pairs: int

    @property
    def several(self) -> dict[str, str]:
        """The group of each image that has look-alikes."""
        return {image: group for group, images in self.members().items() if len(images) > 1 for image in images}

    @property
    def num_groups(self) -> int:
        """The number of groups, with those of a single image."""
        return len(set(self.group_of.values()))

    @property
    def largest(self) -> int:
        """The number of images in the largest group; 0 if there are no images."""
        return max(map(len, self.members().values()), default=0)

    def members(self) -> dict[str, list[str]]:
        """Returns the images of each group."""
        found: dict[str, list[str]] = defaultdict(list)
        for image, group in self.group_of.items():
            found[group].append(image)
        return found


class Lookalike(NamedTuple):
    """An image and the one among others that it resembles most, with the number of bits in which they differ."""

    image: str
    other: str
    distance: int


def lookalike_groups(looks: Mapping[str, int], *, max_distance: int = MAX_DISTANCE) -> LookalikeGroups:
    """Returns the groups of look-alikes; images of one group need not look alike if others lead from one to the other.

    Args:
        looks: The perceptual hash of each image, by its name.
        max_distance: The highest number of bits in which the hashes of look-alikes differ.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names = sorted(looks)
    if not names:
        return LookalikeGroups({}, 0)
    group_N = np.arange(len(names))

    def joined(edges: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
        """Returns the group of each image after the images of each edge were joined as well."""
        here, there = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        graph = coo_array((np.ones(len(here), bool), (here, there)), shape=(len(names), len(names)))
        _, labels = connected_components(graph, directed=False)
        # The first image of a group stands for it, which is the one with the smallest name.
        _, first = np.unique(labels, return_index=True)
        standing: NDArray[np.intp] = first[labels]
        return standing

    num_pairs, waiting = 0, 0
    edges = [np.stack([np.arange(len(names)), group_N])]
    for index, later in _pairs(_codes(looks, names), max_distance):
        num_pairs += len(later)
        apart = later[group_N[later] != group_N[index]]
        waiting += len(apart)
        edges.append(np.stack([np.full(len(apart), index), apart]))
        # A film cut into frames has more pairs than fit into memory, so that they are joined on the way.
        if waiting > _MAX_EDGES:
            group_N, waiting = joined(edges), 0
            edges = [np.stack([np.arange(len(names)), group_N])]
    group_N = joined(edges)
    return LookalikeGroups({name: names[group] for name, group in zip(names, group_N, strict=True)}, num_pairs)


def pairs_across(
    looks: Mapping[str, int],
    groups: LookalikeGroups,
    place_of: Mapping[str, str],
    *,
    max_distance: int = MAX_DISTANCE,
) -> int:
    """Returns the number of pairs of look-alikes whose images are in two places, such as splits."""
    crossing = [images for images in groups.members().values() if len({place_of[image] for image in images}) > 1]
    count = 0
    for images in crossing:
        places = np.array([place_of[image] for image in images])
        for index, later in _pairs(_codes(looks, images), max_distance):
            count += int(np.count_nonzero(places[later] != places[index]))
    return count


def nearest_lookalikes(
    looks: Mapping[str, int], others: Mapping[str, int], *, max_distance: int = MAX_DISTANCE
) -> list[Lookalike]:
    """Returns each image that looks like one of the others, with the nearest of them; sorted by distance and name."""
    names, theirs = sorted(looks), sorted(others)
    codes = _codes(others, theirs)
    if not len(codes):
        return []
    found = []
    for name in names:
        distances = np.bitwise_count(codes ^ np.uint64(looks[name]))
        nearest = int(distances.argmin())
        if distances[nearest] <= max_distance:
            found.append(Lookalike(name, theirs[nearest], int(distances[nearest])))
    return sorted(found, key=lambda pair: (pair.distance, pair))


def _codes(looks: Mapping[str, int], names: Sequence[str]) -> NDArray[np.uint64]:
    return np.array([looks[name] for name in names], dtype=np.uint64)


def _pairs(codes: NDArray[np.uint64], max_distance: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yields the place of each image that has look-alikes behind it, with their places."""
    for index in range(len(codes) - 1):
        later = np.flatnonzero(np.bitwise_count(codes[index + 1 :] ^ codes[index]) <= max_distance)
        if len(later):
            yield index, later + index + 1
