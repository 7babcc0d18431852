"""Turns a volume into the input of a tower: reads it from its files or from a cache, and prepares it.

Shape legend: C channels; the other axes are the tower's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from medtune.data.media.load import Shape
from medtune.data.media.masks import other_side
from medtune.data.media.volumes.cache import Entry, VolumeCache
from medtune.data.media.volumes.geometry import Grid
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.types import Media, MediaKind, MediaRef, Volume, require_kind


@dataclass(frozen=True, slots=True)
class VolumeInput:
    """Prepares volumes with one of `data`'s transforms; runs in the processes that load data.

    Attributes:
        prepare: The transform.
        cache: Folder that keeps prepared volumes; None prepares them every time.
    """

    prepare: VolumeTransform
    cache: VolumeCache | None = None

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        return ("volume",)

    @property
    def sampling(self) -> None:
        """None, because the transform takes no videos."""
        return None

    def shape(self, ref: MediaRef) -> Shape | None:
        """Returns None, because every volume has the same number of tokens."""
        return None

    def __call__(self, media: Media) -> Tensor:
        """Returns one prepared volume, (C, ...), float32."""
        return torch.from_numpy(np.ascontiguousarray(self.prepare(require_kind(media, Volume))))

    def read(self, ref: MediaRef) -> Tensor:
        """Returns one prepared volume from its files or from the cache, with the masks that the preparation reads."""
        if self.cache is None:
            return self(load_volume(ref, self.prepare.organs))
        return torch.from_numpy(self.cache.transformed(ref, self.prepare))

    def entry(self, ref: MediaRef, cache: VolumeCache) -> Entry:
        """Returns the entry of one volume in a cache, which `read` makes where it is missing."""
        return cache.entry(ref, self.prepare)

    @property
    def kept_as(self) -> str:
        """What an entry holds, in words."""
        return self.prepare.kept_as

    def most_bytes(self, grid: Grid) -> int:
        """Returns the bytes of the entry of a volume on a grid, at most."""
        return self.prepare.most_bytes(grid)

    def changed(self, ref: MediaRef, change: Callable[[Media], Media]) -> Tensor:
        """Returns one volume that is read from its files, changed and then prepared.

        The cache is not used, because training draws a new change each time.
        """
        organs = self.prepare.organs
        # A mirrored volume needs the mask of the other side's organ.
        return self(change(load_volume(ref, {*organs, *map(other_side, organs)})))

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(items))
