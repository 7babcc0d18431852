"""Yields broken volumes: NIfTI files with odd fields in their headers, cut, or with flipped bits behind gzip."""

import gzip
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import nibabel
import numpy as np

from medtune.data.media.volumes.read import read_volume, volume_grid
from tests.faults.harness import PLANTED, Broken

_DIM, _TYPE, _PIXDIM, _SLOPE, _TEXT, _HEADER = 40, 70, 76, 112, 148, 352
ODD_DIMS = (
    (3, 32767, 32767, 32767),
    (3, 0, 5, 6),
    (3, -4, 5, 6),
    (0, 4, 5, 6),
    (9, 4, 5, 6),
    (4, 4, 5, 6, 7),
    (2, 4, 5),
)
NUMBERLESS = {"RGB": (128, 24), "RGBA": (2304, 32), "complex": (32, 64), "bits": (1, 1)}
"""Kinds of voxels that are no numbers, with their bits; their code is in nifti1.h."""


def volume_files(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields volumes whose voxels are read, and whose grid is."""
    voxels = np.random.default_rng(0).integers(-1000, 1000, (4, 5, 6), dtype=np.int16)
    image = nibabel.Nifti1Image(voxels, np.diag([1.0, 1.5, 2.0, 1.0]))
    image.header["descrip"] = PLANTED
    whole = image.to_bytes()
    while True:
        name = draw.choice(list(CHANGES))
        content, is_certain = CHANGES[name](draw, whole)
        suffix = ".nii.gz" if content[:2] == b"\x1f\x8b" else ".nii"
        path = folder / f"volume_{draw.getrandbits(32):08x}{suffix}"
        path.write_bytes(content)

        def read(path: Path = path) -> None:
            read_volume(path)

        def grid(path: Path = path) -> None:
            volume_grid(path)

        yield Broken(f"{name} in {path.name}", read, path, is_certain)
        yield Broken(f"the grid of {name} in {path.name}", grid, path)


def _written(whole: bytes, place: int, form: str, *values: float) -> bytes:
    content = bytearray(whole)
    struct.pack_into(form, content, place, *values)
    return bytes(content)


def _dims(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    dims = draw.choice(ODD_DIMS)
    content = _written(whole, _DIM, "<8h", *dims, *[1] * (8 - len(dims)))
    return (gzip.compress(content) if draw.random() < 0.5 else content), True


def _kind(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    code, bits = draw.choice(list(NUMBERLESS.values()))
    return _written(whole + bytes(10_000), _TYPE, "<2h", code, bits), True


def _spacing(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    odd = draw.choice((0.0, float("nan"), float("inf"), 1e38))
    return _written(whole, _PIXDIM + 4 * draw.randrange(1, 4), "<f", odd), True


def _slope(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    return _written(whole, _SLOPE, "<2f", *draw.choice(((float("inf"), 0), (1, float("-inf")), (1e38, 1e38)))), True


def _header(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    content = bytearray(whole)
    for _ in range(draw.randrange(1, 5)):
        content[draw.randrange(_HEADER)] ^= 1 << draw.randrange(8)
    return bytes(content), False


def _cut(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    content = gzip.compress(whole) if draw.random() < 0.5 else whole
    return content[: draw.randrange(len(content))], True


def _checksum(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    content = bytearray(gzip.compress(whole, compresslevel=draw.choice((0, 1, 9))))
    content[-1 - draw.randrange(8)] ^= 1 << draw.randrange(8)
    return bytes(content), True


CHANGES: Mapping[str, Callable[[random.Random, bytes], tuple[bytes, bool]]] = {
    "odd dims": _dims, "no numbers": _kind, "odd spacing": _spacing, "odd slope": _slope, "flipped bits": _header,
    "a cut": _cut, "a wrong checksum": _checksum,
}  # fmt: skip
