"""What a cache keeps of a volume: small, exact, the same as the plain way, and made without wide copies of the scan."""

import errno
import json
import os
import stat
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from monai.data import MetaTensor
from monai.transforms import Orientation, Resize, Spacing
from numpy.typing import NDArray
from safetensors.numpy import save

from medtune.benchmarks import find_source
from medtune.data.media.volumes.formats.abdomen_atlas import SCAN, find_cases
from medtune.data.media.volumes.formats.ctvit_encoding import KEY, read_encoding
from medtune.data.media.volumes.formats.stored_volume import read_values, write_values
from medtune.data.media.volumes.geometry import affine_of, grid_of
from medtune.data.media.volumes.transforms import ct_chat, m3d, merlin, radfm, resample
from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform
from medtune.data.media.volumes.transforms.pocket import POCKET
from medtune.data.media.volumes.transforms.transform import Kept, VolumeTransform
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS, MediaRef, Volume
from tests.data.media.volumes.synthetic_volumes import scan
from tests.examples import write_example

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


def vectors(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((1, 3, 2, 4, 5)).astype(np.float32)


def saved(path: Path, values: NDArray[np.generic], key: str = KEY) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {key: values}
    np.savez(path, **arrays)
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """CTLesionVQA's example of ten scans."""
    write_example("ctlesionvqa", tmp_path / "raw")
    return tmp_path / "raw"


def prepared(raw: Path, share: float = 0.0) -> Prepared:
    out = raw.parent / "prepared"
    return prepare(find_source("ctlesionvqa"), benchmark="ctlesionvqa", root=raw, out=out, max_rejected=share)


def refs(folder: Prepared) -> list[MediaRef]:
    return [group.media[0] for split in SPLITS for group in folder.groups(split)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_encoding_is_read_without_its_batch_axis(dtype: type[np.floating], tmp_path: Path) -> None:
    values = vectors().astype(dtype)
    found = read_encoding(saved(tmp_path / "a.npz", values))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values[0].astype(np.float32))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (vectors()[0], r"arr: shape \(3, 2, 4, 5\), wanted \(1, t, h, w, width\)"),
        (np.concatenate([vectors(), vectors()]), r"arr: shape \(2, 3, 2, 4, 5\)"),
        (vectors()[:, :0], r"arr: shape \(1, 0, 2, 4, 5\)"),
        (np.zeros((1, 3, 2, 4), np.int64), r"arr: shape \(1, 3, 2, 4\)"),
        (np.zeros((1, 3, 2, 4, 5), np.int64), "arr: values of type int64, wanted floating-point"),
        (np.where(vectors() > 2, np.nan, vectors()), "arr: values that are not finite"),
        (np.array([None]), r"not a whole \.npz file"),
    ],
)
def test_arrays_that_are_no_encoding_are_refused(values: NDArray[np.generic], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", values)
    with pytest.raises(ValueError, match=rf"a\.npz: {message}.*take the file away"):
        read_encoding(path)


def test_broken_files_and_other_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
        read_encoding(tmp_path / "gone.npz")
    whole = saved(tmp_path / "a.npz", vectors()).read_bytes()
    turned = bytearray(whole)
    turned[len(whole) // 2] ^= 0xFF
    array = tmp_path / "plain.npy"
    np.save(array, vectors())
    for damaged in (b"", b"no archive", whole[:-40], bytes(turned), array.read_bytes()):
        (tmp_path / "a.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"a\.npz: not a whole \.npz file"):
            read_encoding(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"b\.npz: no array of the name arr\."):
        read_encoding(saved(tmp_path / "b.npz", vectors(), key="features"))


def test_encodings_are_found_beside_scans_and_anywhere_on_the_way(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / "scans" / name).mkdir(parents=True)
        (tmp_path / "scans" / name / SCAN).touch()
    places = {
        "a": tmp_path / "scans" / "a" / "ct.npz",
        "b": tmp_path / "scans" / "b" / "b.npz",
        "c": tmp_path / "c.npz",
        "d": tmp_path / "made" / "by" / "encodings" / "d.npz",
    }
    for path in (*places.values(), tmp_path / "a.npz", tmp_path / "nobody.npz"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert {name: case.encoding for name, case in find_cases(tmp_path).items()} == {**places, "e": None}
    beside = {name: case.encoding for name, case in find_cases(tmp_path / "scans").items()}
    assert beside == {"a": places["a"], "b": places["b"], "c": None, "d": None, "e": None}


def test_a_prepared_folder_keeps_encodings_with_their_scans(raw: Path) -> None:
    plain = prepared(raw)
    scan = raw / "image_only" / "BDMAP_00000003" / SCAN
    path = saved(raw / "encodings" / "BDMAP_00000003.npz", vectors())
    folder = prepared(raw)
    (ref,) = [each for each in refs(folder) if each.encoding is not None]
    assert ref.path.read_bytes() == scan.read_bytes()
    assert ref.encoding is not None
    np.testing.assert_array_equal(read_encoding(ref.encoding), vectors()[0])
    assert ref.encoding.parent == folder.root / "media"
    assert "BDMAP" not in ref.encoding.name
    assert [each for each in refs(plain) if each.encoding is None] == refs(plain)
    assert folder.data_hash != plain.data_hash
    assert path.stat().st_nlink == 2
    ref.encoding.unlink()
    with pytest.raises(FileNotFoundError, match="1 media files are missing"):
        open_prepared(folder.root)


def test_broken_encodings_are_rejected_with_their_questions_and_counted(raw: Path) -> None:
    for number in (0, 2):
        saved(raw / "encodings" / f"BDMAP_{number:08d}.npz", vectors()[0])
    saved(raw / "encodings" / "BDMAP_00000004.npz", vectors())
    with pytest.raises(ValueError, match=r"its encoding: arr: shape .* wanted \(1, t, h, w, width\)"):
        prepared(raw)
    folder = prepared(raw, share=0.5)
    (rejected,) = folder.manifest.rejected.items()
    assert rejected[0].startswith("its encoding: arr: shape")
    assert rejected[1] == 12
    assert len(refs(folder)) == 8
    rows = [json.loads(line) for line in (folder.root / "rejects.jsonl").read_text().splitlines()]
    assert {row["reason"].partition(" (")[0] for row in rows} == {"its encoding: arr: shape"}
    assert "take the file away" in rows[0]["reason"]
    assert "BDMAP" not in (folder.root / "rejects.jsonl").read_text()
