"""What a cache keeps of a volume: small, exact, the same as the plain way, and made without wide copies of the scan."""

import errno
import os
import stat
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from monai.data import MetaTensor
from monai.transforms import Orientation, Resize, Spacing
from numpy.typing import NDArray
from safetensors.numpy import save

from medtune.data.media.volumes.formats.stored_volume import read_values, write_values
from medtune.data.media.volumes.geometry import affine_of, grid_of
from medtune.data.media.volumes.transforms import ct_chat, m3d, merlin, radfm, resample
from medtune.data.media.volumes.transforms.organ_crop import POCKET, CroppedTransform
from medtune.data.media.volumes.transforms.transform import Kept, VolumeTransform
from medtune.data.types import Volume
from tests.data.media.volumes.synthetic_volumes import scan

CT_CHAT = ct_chat.CTChatTransform(size=(48, 40, 24))
MERLIN = merlin.MerlinTransform(size=(24, 24, 16))
M3D = m3d.M3DTransform(size=(6, 16, 12))
RADFM = radfm.RadFMTransform(in_plane=16, depth=8)
TRANSFORMS: dict[str, VolumeTransform] = {
    "ct_chat": CT_CHAT,
    "ct_chat_train": replace(CT_CHAT, clip_first=False),
    "merlin": MERLIN,
    "m3d": M3D,
    "m3d_range": replace(M3D, window_hu=None),
    "radfm": RADFM,
    "radfm_npy": replace(RADFM, axes="nifti_npy"),
    "radfm_direct": replace(RADFM, axes="nifti_direct"),
    "pocket": POCKET,
    "crop": CroppedTransform(CT_CHAT, ("liver",), 2.0),
}
MASK = np.zeros((20, 18, 70), bool)
MASK[4:9, 3:8, 10:30] = True
HU = scan((20, 18, 70))
VOLUMES = {
    "cut": Volume(HU, (2.5, 2.5, 1.0), "LPS", {"liver": MASK}),
    "padded": Volume(HU, (1.1, 0.9, 0.3), "RAS", {"liver": MASK}),
    "turned": Volume(np.asfortranarray(HU), (3.0, 1.3, 2.0), "SLP", {"liver": MASK}),
    "float": Volume(HU.astype(np.float32) + np.float32(0.25), (2.5, 2.5, 1.0), "LPS", {"liver": MASK}),
    "even": Volume(np.full((9, 9, 9), -7, np.int16), (2.0, 2.0, 2.0), "LPS", {"liver": np.ones((9, 9, 9), bool)}),
}


@pytest.mark.filterwarnings("ignore:no mask of")
@pytest.mark.parametrize("volume", VOLUMES.values(), ids=VOLUMES)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_what_was_on_disk_is_finished_to_the_same_bits(
    transform: VolumeTransform, volume: Volume, tmp_path: Path
) -> None:
    kept = transform.keep(volume)
    write_values(tmp_path / "entry", kept.values, kept.about)
    found = transform.finish(Kept(*read_values(tmp_path / "entry")))
    wanted = transform(volume)
    assert found.dtype == wanted.dtype == np.float32
    assert found.tobytes() == wanted.tobytes()
    bound = transform.most_bytes(grid_of(volume))
    if volume.hu_IJK.dtype == np.int16:
        assert kept.values.nbytes == bound or isinstance(transform, CroppedTransform)
        assert kept.values.nbytes <= bound


def test_fewer_bytes_are_kept() -> None:
    thick = Volume(scan((40, 40, 12)), (1.5, 1.5, 5.0), "LPS")
    thin = Volume(scan((40, 40, 48)), (0.5, 0.5, 0.5), "LPS")
    native, grid = ct_chat.ENCODE.keep(thick).values, ct_chat.ENCODE.keep(thin).values
    assert (native.dtype.name, native.shape) == ("int16", (12, 40, 40))
    assert (grid.dtype.name, grid.shape) == ("float32", (16, 26, 26))
    assert radfm.PAPER.keep(thin).values.nbytes * 6 == radfm.PAPER(thin).nbytes
    assert merlin.PUBLIC.keep(thin).values.shape == (14, 14, 9)


def linear(values: NDArray[np.floating], size: tuple[int, ...], dtype: type) -> NDArray[np.float32]:
    resize = Resize(size, mode="trilinear", align_corners=False, dtype=dtype)
    resized: NDArray[np.float32] = np.asarray(resize(values[None]), dtype=np.float32)[0]
    return resized


def centred(values: NDArray[np.float32], size: tuple[int, int, int], pad: float) -> NDArray[np.float32]:
    def middle(of: int, other: int) -> slice:
        first = (of - min(of, other)) // 2
        return slice(first, first + min(of, other))

    reads = tuple(middle(have, want) for have, want in zip(values.shape, size, strict=True))
    writes = tuple(middle(want, have) for have, want in zip(values.shape, size, strict=True))
    out = np.full(size, pad, np.float32)
    out[writes] = values[reads]
    return out


def plain_ct_chat(volume: Volume) -> NDArray[np.float32]:
    in_plane, _, along = volume.spacing_mm
    spacings = zip(volume.hu_IJK.shape, (in_plane, in_plane, along), CT_CHAT.spacing_mm, strict=True)
    size = tuple(int(count * (own / target)) for count, own, target in spacings)
    resized = linear(np.clip(volume.hu_IJK.astype(np.float64), -1000, 1000), size, np.float64)
    return centred(np.clip(resized, -1000, 1000) / np.float32(1000), CT_CHAT.size, -1.0).transpose(2, 0, 1)[None]


def plain_merlin(volume: Volume) -> NDArray[np.float32]:
    tensor = MetaTensor(volume.hu_IJK.astype(np.float32)[None], affine=affine_of(volume))
    turned = Orientation(axcodes="RAS", labels=(("L", "R"), ("P", "A"), ("I", "S")))(tensor)
    spaced = np.asarray(Spacing(pixdim=MERLIN.spacing_mm, mode="bilinear")(turned), dtype=np.float32)[0]
    return centred(np.clip((spaced + 1000) / np.float32(2000), 0, 1), MERLIN.size, 0.0)[None]


def plain_m3d(volume: Volume) -> NDArray[np.float32]:
    grey = np.floor((np.clip(volume.hu_IJK.transpose(2, 1, 0).astype(np.float64), -160, 240) + 160) * 255 / 400)
    scaled = grey.astype(np.float32) / np.float32(255)
    scaled = scaled - scaled.min()
    scaled = scaled / max(float(scaled.max()), 1e-8)
    filled = np.argwhere(scaled > 0)
    if len(filled):
        scaled = scaled[tuple(slice(a, b + 1) for a, b in zip(filled.min(0), filled.max(0), strict=True))]
    return linear(scaled, M3D.size, np.float32)[None]


# monai computes the places in M3D's scans in float32.
PLAIN: dict[str, tuple[VolumeTransform, Callable[[Volume], NDArray[np.float32]], float]] = {
    "ct_chat": (CT_CHAT, plain_ct_chat, 2e-7),
    "merlin": (MERLIN, plain_merlin, 5e-7),
    "m3d": (M3D, plain_m3d, 2e-5),
}


@pytest.mark.parametrize("volume", VOLUMES.values(), ids=VOLUMES)
@pytest.mark.parametrize("name", PLAIN)
def test_slabs_give_what_the_whole_scan_gives(name: str, volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "_SLAB_VOXELS", 2000)
    monkeypatch.setattr(m3d, "_SLICES", 5)
    transform, plain, apart = PLAIN[name]
    np.testing.assert_allclose(transform(volume), plain(volume), rtol=0, atol=apart)
    if volume is not VOLUMES["even"]:
        # The control: the same scan moved by one voxel differs.
        moved = replace(volume, hu_IJK=np.roll(volume.hu_IJK, 1, axis=2))
        assert np.abs(transform(moved) - plain(volume)).max() > 1e-2


@pytest.mark.parametrize("axes", ["hwd", "nifti_npy", "nifti_direct"])
def test_radfm_picks_the_slices_of_the_whole_resized_scan(axes: radfm.Axes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radfm, "_SLICES", 7)
    volume = VOLUMES["cut"]
    values_HWD = radfm._in_model_axes(volume.hu_IJK, axes)
    resized = linear(values_HWD.transpose(2, 0, 1).astype(np.float32), (values_HWD.shape[2], 512, 512), np.float32)
    whole = np.rint(resized).transpose(1, 2, 0)
    whole = (whole - whole.min()) / (whole.max() - whole.min())
    if axes == "nifti_direct" and whole.shape[2] > 64:
        from scipy.ndimage import zoom

        whole = zoom(whole, (1, 1, 64 / whole.shape[2]), order=0)
    for axis, size in enumerate((16, 16, 8)):
        index = np.floor(np.arange(size, dtype=np.float32) * np.float32(whole.shape[axis] / size)).astype(int)
        whole = whole.take(index, axis=axis)
    found = replace(RADFM, axes=axes)(volume)
    assert (found == whole[None]).all()


@pytest.mark.parametrize("name", ["ct_chat", "merlin", "m3d", "radfm"])
def test_no_wide_copy_of_the_scan_is_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "_SLAB_VOXELS", 100_000)
    for module in (m3d, radfm):
        monkeypatch.setattr(module, "_SLICES", 2)
    volume = Volume(np.asfortranarray(scan((160, 160, 200))), (1.0, 1.0, 1.0), "LPS")
    transform = TRANSFORMS[name]
    transform(VOLUMES["cut"])
    tracemalloc.start()
    transform(volume)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A copy as float32 would have twice the bytes of the scan, one as float64 four times.
    assert peak < 1.5 * volume.hu_IJK.nbytes


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32])
def test_files_are_those_of_the_library_and_readable_by_others(dtype: type, tmp_path: Path) -> None:
    path = tmp_path / "entry"
    values: NDArray[np.generic] = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for about in ({}, {"lowest": "-3.0", "highest": "7.5"}):
        write_values(path, values.transpose(2, 0, 1), about)
        header = 8 + int.from_bytes(path.read_bytes()[:8], "little")
        library = save({"volume": np.ascontiguousarray(values.transpose(2, 0, 1))}, metadata=about or None)
        assert path.read_bytes()[header:] == library[8 + int.from_bytes(library[:8], "little") :]
        found, said = read_values(path)
        np.testing.assert_array_equal(found, values.transpose(2, 0, 1))
        assert (found.dtype, said) == (values.dtype, about)
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_values(tmp_path / "entry", HU, {})
    assert not list(tmp_path.iterdir())
