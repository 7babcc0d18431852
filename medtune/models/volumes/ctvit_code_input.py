"""Prepares volumes as code ids of a frozen CTViT, from the cache, from a saved encoding or computed by the tower.

A full-size scan takes 27 kB as ids, 28 MB as code vectors (on which CT-CHAT's release trains) and 221 MB as prepared
voxels. The projector and the language model get the same numbers from all three.

Shape legend: T, H, W depth, height and width in voxels; t, h, w the same in patches; D feature width.

Source: ibrahimethemhamamci/CT-CHAT@33c9b973, read for facts, no code taken (CC-BY-NC-SA).
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from medtune.data.media.volumes.cache import Entry, VolumeCache
from medtune.data.media.volumes.formats.ctvit_encoding import KEY, read_encoding
from medtune.data.media.volumes.geometry import Grid
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.transform import Kept, VolumeTransform
from medtune.data.types import Media, MediaRef, Volume
from medtune.models.contract import Transform
from medtune.models.towers.ctvit import CTViT
from medtune.models.volumes.volume_parts import VolumeInput, VolumeParts
from medtune.models.weights.loading_options import CODES

FARTHEST = 1e-2
"""Largest distance of a saved vector from its code of length 1.

Rounding to 16 bits stays below it; the distance to the codes of another tower does not.
"""
_OTHER_TOWER = (
    "it was saved by another tower than model.weights holds. Take the weights that it was saved with, or prepare the "
    "folder without encodings: the scans are then encoded here."
)


@dataclass(frozen=True, slots=True)
class Coder:
    """A frozen tower that turns volumes into code ids.

    It always runs on the CPU in float32, also where the model runs elsewhere or in 16 bits, because the ids are cached
    for later runs.
    """

    tower: CTViT = field(repr=False)
    digest: str  # Hash of the tower's sizes and weights, 16 hex digits.

    def of_volume(self, volume_1THW: Tensor) -> Tensor:
        """Returns the code ids of a prepared volume, int64 (t, h, w)."""
        with _exactly():
            return self.tower.quantise(self.tower.encode(volume_1THW[None])).ids[0]

    def of_encoding(self, path: Path) -> Tensor:
        """Returns the code ids of a saved encoding, int64 (t, h, w)."""
        vectors_thwD = torch.from_numpy(read_encoding(path))
        found, width = vectors_thwD.shape[-1], self.tower.config.width
        if found != width:
            raise ValueError(f"{path}: {KEY}: vectors of width {found}, the tower's have {width}; {_OTHER_TOWER}")
        with _exactly():
            # The slabs are compared one after another, because comparing all vectors with all codes at once would
            # take half a gigabyte.
            slabs = [self.tower.quantise(vectors_hwD) for vectors_hwD in vectors_thwD]
        tokens_thwD = torch.stack([slab.tokens for slab in slabs])
        distance = float((tokens_thwD - vectors_thwD).norm(dim=-1).max())
        if distance > FARTHEST:
            raise ValueError(
                f"{path}: {KEY}: a vector is {distance:.2g} away from the nearest code, wanted {FARTHEST:g} at most; "
                f"{_OTHER_TOWER}"
            )
        return torch.stack([slab.ids for slab in slabs])


@contextmanager
def _exactly() -> Iterator[None]:
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        yield


def coder_of(vision: nn.Module) -> Coder:
    """Returns a coder with a copy of a tower and its present weights."""
    if not isinstance(vision, CTViT):
        raise TypeError(f"{type(vision).__name__} has no codes")
    tower = deepcopy(vision).to("cpu", torch.float32).eval().requires_grad_(False)
    whole = hashlib.sha256(repr(tower.config).encode())
    for name, tensor in tower.state_dict().items():
        whole.update(name.encode())
        whole.update(tensor.contiguous().numpy().tobytes())
    return Coder(tower, whole.hexdigest()[:16])


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesInput(VolumeInput):
    """A preparation of volumes that ends with the tower's code ids."""

    coder: Coder
    # The preparation from which saved encodings were made. Where volumes are prepared in another way, for instance as
    # crops around an organ, saved encodings are not used.
    saved_from: VolumeTransform

    def __call__(self, media: Media) -> Tensor:
        """Returns the code ids of one volume, int64 (t, h, w)."""
        return self.coder.of_volume(VolumeInput.__call__(self, media))

    def read(self, ref: MediaRef) -> Tensor:
        """Returns the code ids of one volume, int64 (t, h, w).

        They come from the cache; if they are not there, from the saved encoding; if there is none, from the volume.
        """
        if self.cache is None:
            return self._codes_of(ref)
        ids_thw = self.cache.kept(self.entry(ref, self.cache)).values
        return torch.from_numpy(ids_thw.astype(np.int64))

    def entry(self, ref: MediaRef, cache: VolumeCache) -> Entry:
        """Returns the entry of the code ids of one volume in a cache, which `read` makes where it is missing."""
        encoding = self._encoding(ref)
        seen = cache.name(ref, self.prepare) if encoding is None else cache.digest(encoding)
        return Entry(
            f"{seen}-{CODES}-{self.coder.digest}", lambda: Kept(self._codes_of(ref).numpy().astype(self._type))
        )

    @property
    def kept_as(self) -> str:
        """What an entry holds, in words."""
        return f"the code ids of the tower, as {np.dtype(self._type).name}"

    def most_bytes(self, grid: Grid) -> int:
        smallest = Volume(np.zeros((8, 8, 8), np.int16), (1.0, 1.0, 1.0), "RAS")
        return prod(self.prepare(smallest).shape) // prod(self.coder.tower.config.patch) * np.dtype(self._type).itemsize

    @property
    def _type(self) -> type[np.signedinteger]:
        return np.int16 if self.coder.tower.config.codes <= np.iinfo(np.int16).max + 1 else np.int32

    def _encoding(self, ref: MediaRef) -> Path | None:
        return ref.encoding if self.prepare == self.saved_from else None

    def _codes_of(self, ref: MediaRef) -> Tensor:
        if (encoding := self._encoding(ref)) is not None:
            return self.coder.of_encoding(encoding)
        return self(load_volume(ref, self.prepare.organs))

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        """Returns the code ids of several volumes as one batch, int64 (B, t, h, w)."""
        grids = sorted({tuple(item.shape) for item in items})
        if len(grids) > 1:
            raise ValueError(
                f"model.variant {CODES}: one scan is a grid of {grids[0]} codes, another one of {grids[1]}; take away "
                "the encodings that were saved from volumes of another size"
            )
        return torch.stack(list(items))


def as_codes(parts: VolumeParts) -> VolumeParts:
    """Returns the parts of a model whose input is changed from volumes to the code ids of its CTViT."""
    return replace(
        parts, seen_as=lambda transform, tower: CodesInput(transform, coder=coder_of(tower()), saved_from=transform)
    )


def recoded(transform: Transform, vision: nn.Module) -> Transform:
    """Returns the transform with the codes of this tower; a transform without codes is returned unchanged."""
    return replace(transform, coder=coder_of(vision)) if isinstance(transform, CodesInput) else transform
