"""Computes the recorded values of the preparations of volumes, each from a NIfTI file through the cache."""

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.media.volumes.transforms import ct_chat, m3d, merlin, radfm
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.data.types import MediaRef
from tests.models.golden.file import GoldenFile

Arrays = Iterator[tuple[str, NDArray[np.generic]]]


def phantom(spec: Mapping[str, Any]) -> NDArray[np.int16]:
    """Returns the test volume that the formula of a golden file describes.

    Source: `inputs.formula` of the preprocessing cases.
    """
    shape = tuple(spec["shape"])
    i, j, k = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in shape), indexing="ij", sparse=True)
    ramp, (texture, period) = spec["ramp"], spec["texture"]
    values = spec["offset"] + ramp[0] * i + ramp[1] * j + ramp[2] * k + texture * ((i * j + 3 * k) % period)
    ball = spec["ellipsoid"]
    distance = sum(w * (x - c) ** 2 for w, x, c in zip(ball["weights"], (i, j, k), ball["center"], strict=True))
    values = values + ball["add"] * (distance <= ball["limit"])
    box = tuple(slice(low, high) for low, high in zip(spec["box"]["lo"], spec["box"]["hi"], strict=True))
    values[box] += spec["box"]["add"]
    values = np.clip(values, -1024, 3071)
    left, right, front, back = spec["border"]
    values[:left] = values[shape[0] - right :] = -1024
    values[:, :front] = values[:, shape[1] - back :] = -1024
    whole = values.astype("<i2")
    if zlib.crc32(np.ascontiguousarray(whole).tobytes()) != spec["check"]["crc32_int16_little_endian_C_order"]:
        raise ValueError("the volume made from the file's formula does not have the stated checksum")
    return np.asarray(whole, dtype=np.int16)


def _run(golden: GoldenFile, variants: Mapping[str, VolumeTransform], *, leading: int) -> Arrays:
    with TemporaryDirectory() as scratch:
        cache = VolumeCache(Path(scratch) / "cache")
        for name, wanted in golden.recorded_values().items():
            path = Path(scratch) / f"{name}.nii.gz"
            spec = golden.inputs[name]
            write_nifti(path, phantom(spec), np.asarray(spec["affine"], dtype=np.float64))
            for value_name in wanted:
                if value_name in variants:
                    values = cache.transformed(MediaRef(path, kind="volume"), variants[value_name])
                    yield f"{name}/{value_name}", values.reshape((1,) * leading + values.shape)


def run_radfm(golden: GoldenFile) -> Arrays:
    """Yields the values of the case radfm-preprocess, with their names `<input>/<value>`."""
    variants = {axes: radfm.RadFMTransform(axes=axes) for axes in ("hwd", "nifti_npy", "nifti_direct")}
    variants["hwd_batch_of_two"] = radfm.RadFMTransform(in_plane=512)
    return _run(golden, variants, leading=1)


def run_m3d(golden: GoldenFile) -> Arrays:
    """Yields the values of the case m3d-preprocess, with their names `<input>/<value>`."""
    size = tuple(golden.config["size"][1:])
    return _run(
        golden,
        {"slices8": m3d.M3DTransform(size=size), "hu_minmax": m3d.M3DTransform(window_hu=None, size=size)},
        leading=0,
    )


def run_merlin(golden: GoldenFile) -> Arrays:
    """Yields the values of the case merlin-preprocess, with their names `<input>/<value>`."""
    config = golden.config
    transform = merlin.MerlinTransform(
        spacing_mm=tuple(config["spacing"]), window_hu=tuple(config["window"]), size=tuple(config["size"])
    )
    return _run(golden, {"image": transform}, leading=0)


def run_ct_clip(golden: GoldenFile) -> Arrays:
    """Yields the values of the case ctclip-preprocess, with their names `<input>/<value>`."""
    target = golden.config["target_spacing"]
    spacing = (float(target["xy"]), float(target["xy"]), float(target["z"]))
    return _run(
        golden,
        {
            "encode": ct_chat.CTChatTransform(spacing_mm=spacing),
            "clip_train": ct_chat.CTChatTransform(spacing_mm=spacing, clip_first=False),
        },
        leading=0,
    )
