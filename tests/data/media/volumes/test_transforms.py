"""Each model's preparation, the cache and the organ crop; recorded values are in tests/models/golden."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.load import BLANKS, load_media
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.stored_volume import read_stored_volume, write_volume
from medtune.data.media.volumes.read import load_volume, read_volume
from medtune.data.media.volumes.transforms import ct_chat, m3d, merlin, radfm
from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform, crop_around
from medtune.data.media.volumes.transforms.transform import VolumeTransform, transform_hash
from medtune.data.types import MediaRef, Volume
from tests.data.media.volumes.synthetic_volumes import nifti, scan


def flipped(volume: Volume, axis: int, letter: str) -> Volume:
    """The same body, stored the other way round along one axis."""
    letters = volume.orientation[:axis] + letter + volume.orientation[axis + 1 :]
    return Volume(np.flip(volume.hu_IJK, axis), volume.spacing_mm, letters)


def test_merlin_sees_one_body_however_it_is_stored() -> None:
    volume = Volume(scan((20, 24, 12)), (3.0, 2.0, 4.0), "LPS")
    small = merlin.MerlinTransform(size=(32, 32, 16))
    prepared = small(volume)
    assert prepared.shape == (1, 32, 32, 16)
    np.testing.assert_allclose(prepared, small(flipped(volume, 0, "R")), atol=1e-5)
    np.testing.assert_allclose(prepared, small(flipped(volume, 2, "I")), atol=1e-5)
    turned = Volume(volume.hu_IJK.transpose(2, 0, 1), (4.0, 3.0, 2.0), "SLP")
    np.testing.assert_allclose(prepared, small(turned), atol=1e-5)


def test_published_and_papers_sizes() -> None:
    volume = Volume(scan((12, 10, 30)), (20.0, 20.0, 10.0), "LPS")
    assert radfm.PAPER(volume).shape == (3, 256, 256, 64)
    assert radfm.PUBLIC(volume).shape == (3, 256, 256, 28)
    assert m3d.SLICES8(volume).shape == (1, 32, 256, 256)
    for prepared in (radfm.PUBLIC(volume), m3d.SLICES8(volume), m3d.HU_MINMAX(volume)):
        assert prepared.dtype == np.float32
        assert 0 <= prepared.min() < 0.02
        assert 0.99 < prepared.max() <= 1
    assert ct_chat.PAPER.size == (300, 300, 600)
    assert ct_chat.PAPER.spacing_mm == (1.5, 1.5, 1.5)


def test_ct_chat_pads_with_air_and_cuts_the_fraction() -> None:
    volume = Volume(np.full((40, 40, 4), 500, np.int16), (8.1, 8.1, 1.5), "LPS")
    prepared = ct_chat.CTChatTransform(size=(440, 440, 6))(volume)
    assert prepared.shape == (1, 6, 440, 440)
    inside = np.argwhere(prepared[0] > 0)
    # int(40 * (8.1 / 0.75)) is 431, not 432.
    assert (inside.max(axis=0) - inside.min(axis=0) + 1).tolist() == [4, 431, 431]
    assert prepared[0, 2, 200, 200] == pytest.approx(0.5)
    assert prepared[0, 0, 0, 0] == -1


def test_even_volume_gives_no_nan() -> None:
    volume = Volume(np.full((8, 8, 4), -1000, np.int16), (1.0, 1.0, 1.0), "RAS")
    for transform in (radfm.PUBLIC, m3d.SLICES8, m3d.HU_MINMAX):
        assert np.isfinite(transform(volume)).all()


def test_a_stored_volume_is_lossless(tmp_path: Path) -> None:
    wanted = read_volume(nifti(tmp_path / "ct.nii.gz"))
    write_volume(tmp_path / "v.safetensors", wanted)
    found = read_stored_volume(tmp_path / "v.safetensors")
    np.testing.assert_array_equal(found.hu_IJK, wanted.hu_IJK)
    assert found.hu_IJK.dtype == np.int16
    assert (found.spacing_mm, found.orientation) == (wanted.spacing_mm, wanted.orientation)


def test_cache_names_entries_by_content(tmp_path: Path) -> None:
    path, small = nifti(tmp_path / "ct.nii.gz"), m3d.M3DTransform(size=(4, 8, 8))
    cache = VolumeCache(tmp_path / "cache")
    cache.transformed(MediaRef(path, kind="volume"), small)
    (entry,) = (tmp_path / "cache").iterdir()
    assert "ct" not in entry.name.partition("-")[0]
    # The same scan under another name is the same entry; another scan is another one.
    renamed = path.rename(tmp_path / "renamed.nii.gz")
    VolumeCache(tmp_path / "cache").transformed(MediaRef(renamed, kind="volume"), small)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    cache.transformed(MediaRef(nifti(tmp_path / "ct.nii.gz", scan(seed=1)), kind="volume"), small)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_every_setting_is_another_entry(tmp_path: Path) -> None:
    path = nifti(tmp_path / "ct.nii.gz")
    cache = VolumeCache(tmp_path / "cache")
    small = m3d.M3DTransform(size=(4, 8, 8))
    ref = MediaRef(path, kind="volume")
    np.testing.assert_array_equal(cache.transformed(ref, small), small(read_volume(path)))
    np.testing.assert_array_equal(cache.transformed(ref, small), small(read_volume(path)))
    cache.transformed(ref, m3d.M3DTransform(window_hu=None, size=(4, 8, 8)))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    variants: list[VolumeTransform] = [radfm.PUBLIC, radfm.PAPER, m3d.SLICES8, m3d.HU_MINMAX, merlin.PUBLIC]
    variants += [ct_chat.ENCODE, ct_chat.CTChatTransform(clip_first=False), ct_chat.PAPER]
    assert len({transform_hash(v) for v in variants}) == len(variants)


def test_damaged_entry_is_named(tmp_path: Path) -> None:
    write_volume(tmp_path / "v.safetensors", read_volume(nifti(tmp_path / "ct.nii.gz")))
    whole = (tmp_path / "v.safetensors").read_bytes()
    (tmp_path / "v.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"v\.safetensors: damaged"):
        read_stored_volume(tmp_path / "v.safetensors")


def test_crop_keeps_a_margin_in_mm_and_ends_with_the_scan() -> None:
    volume = Volume(scan((40, 30, 20)), (2.0, 1.0, 5.0), "LPS")
    mask = np.zeros(volume.hu_IJK.shape, bool)
    mask[20:22, 1:3, 10] = True
    cropped = crop_around(volume, mask, margin_mm=7.0)
    # 7 mm are 4 voxels of 2 mm (rounded up), 7 of 1 mm (cut off at the edge on one side), 2 of 5 mm.
    np.testing.assert_array_equal(cropped.hu_IJK, volume.hu_IJK[16:26, 0:10, 8:13])
    assert (cropped.spacing_mm, cropped.orientation) == (volume.spacing_mm, volume.orientation)


def test_empty_mask_gives_the_whole_scan_and_a_warning() -> None:
    volume = Volume(scan(), (1.0, 1.0, 1.0), "RAS")
    with pytest.warns(UserWarning, match="pancreas: the mask is empty"):
        assert crop_around(volume, np.zeros((6, 5, 4), bool), name="pancreas") is volume
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crop_around(volume, np.ones((6, 5, 4), bool))
    with pytest.raises(ValueError, match="a mask of"):
        crop_around(volume, np.ones((2, 2, 2), bool))


@pytest.mark.slow
def test_real_scan_through_every_full_size_preparation(shared_real: Path) -> None:
    volume = read_volume(shared_real / "ct_trunk" / "ct.nii.gz")
    for transform, shape in (
        (radfm.PAPER, (3, 256, 256, 64)),
        (m3d.SLICES8, (1, 32, 256, 256)),
        (merlin.PUBLIC, (1, 224, 224, 160)),
        (ct_chat.ENCODE, (1, 240, 480, 480)),
    ):
        prepared = transform(volume)
        assert prepared.shape == shape
        assert np.isfinite(prepared).all()
        assert prepared.std() > 0.05


def test_cropped_preparation_reads_its_own_masks_alone(tmp_path: Path) -> None:
    scan_path = nifti(tmp_path / "ct.nii.gz", scan((20, 20, 10)))
    mask = np.zeros((20, 20, 10), np.uint8)
    mask[8:12, 8:12, 4:6] = 1
    liver = nifti(tmp_path / "liver.nii.gz", mask)
    ref = MediaRef(scan_path, kind="volume", masks=(("colon", tmp_path / "missing.nii.gz"), ("liver", liver)))
    then = m3d.M3DTransform(size=(4, 8, 8))
    crop = CroppedTransform(then, ("liver",), margin_mm=2.0)
    cache = VolumeCache(tmp_path / "cache")
    seen = cache.transformed(ref, crop)
    volume = load_volume(ref, ("liver",))
    np.testing.assert_array_equal(seen, then(crop_around(volume, mask > 0, margin_mm=2.0)))
    assert not np.array_equal(seen, cache.transformed(ref, then))
    # Another mask, and another margin, are other entries.
    mask[:] = 1
    nifti(liver, mask)
    np.testing.assert_array_equal(cache.transformed(ref, crop), cache.transformed(ref, then))
    hashes = {
        transform_hash(t) for t in (then, crop, CroppedTransform(then, ("liver",)), CroppedTransform(radfm.PAPER))
    }
    assert len(hashes) == 4
    with pytest.raises(FileNotFoundError, match=r"missing\.nii\.gz"):
        load_volume(ref, ("colon",))


def test_target_goes_before_the_preparations_own_organs(tmp_path: Path) -> None:
    masks = {}
    for organ, first in (("liver", 2), ("pancreas", 12)):
        mask = np.zeros((20, 20, 10), np.uint8)
        mask[first : first + 4, 8:12, 4:6] = 1
        masks[organ] = nifti(tmp_path / f"{organ}.nii.gz", mask)
    whole = MediaRef(
        nifti(tmp_path / "ct.nii.gz", scan((20, 20, 10))), kind="volume", masks=tuple(sorted(masks.items()))
    )
    crop = CroppedTransform(m3d.M3DTransform(size=(4, 8, 8)), ("liver",), margin_mm=2.0)
    cache = VolumeCache(tmp_path / "cache")
    pancreas = cache.transformed(replace(whole, target=("pancreas",)), crop)
    np.testing.assert_array_equal(pancreas, cache.transformed(whole, replace(crop, organs=("pancreas",))))
    liver = cache.transformed(replace(whole, target=("liver",)), crop)
    np.testing.assert_array_equal(liver, cache.transformed(whole, crop))
    assert not np.array_equal(pancreas, cache.transformed(whole, crop))
    assert load_volume(replace(whole, target=("pancreas",)), crop.organs).masks_IJK.keys() == {"pancreas"}


def test_files_named_by_their_content_are_not_read_for_their_digest(tmp_path: Path) -> None:
    path = nifti(tmp_path / f"{'a' * 64}.nii.gz")
    cache, then = VolumeCache(tmp_path / "cache"), m3d.M3DTransform(size=(4, 8, 8))
    seen = cache.transformed(MediaRef(path, kind="volume"), then)
    path.write_bytes(b"gone")
    np.testing.assert_array_equal(
        VolumeCache(tmp_path / "cache").transformed(MediaRef(path, kind="volume"), then), seen
    )


def test_blank_scan_is_air() -> None:
    volume = load_media(BLANKS["volume"])
    assert isinstance(volume, Volume)
    assert set(np.unique(volume.hu_IJK)) == {-1000}
