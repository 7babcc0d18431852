"""Tests volumes that training changes before they are prepared for the tower."""

from pathlib import Path

import numpy as np
import pytest
import torch

from medtune.data.media.augment import augment_media
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.media.volumes.transforms.m3d import M3DTransform
from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform
from medtune.data.types import Media, MediaRef
from medtune.models.media_reader import read_item
from medtune.models.volumes.volume_parts import VolumeInput

SMALL = M3DTransform(window_hu=None, size=(8, 8, 8))
LPS = np.diag([-2.0, -2.0, 5.0, 1.0])


@pytest.fixture
def scan(tmp_path: Path) -> MediaRef:
    """Returns a scan with two kidneys, of which the right one (i from 2 on) is twice as bright as the left one."""
    hu_IJK = np.random.default_rng(0).integers(-50, 50, (20, 12, 8)).astype(np.int16)
    masks = []
    for organ, first, hu in (("kidney_left", 14, 100), ("kidney_right", 2, 200)):
        mask_IJK = np.zeros(hu_IJK.shape, np.uint8)
        mask_IJK[first : first + 4, 4:8, 2:6] = 1
        hu_IJK[mask_IJK > 0] += hu
        write_nifti(tmp_path / f"{organ}.nii.gz", mask_IJK, LPS)
        masks.append((organ, tmp_path / f"{organ}.nii.gz"))
    write_nifti(tmp_path / "ct.nii.gz", hu_IJK, LPS)
    return MediaRef(tmp_path / "ct.nii.gz", kind="volume", masks=tuple(masks))


def test_a_changed_volume_is_seen_and_never_kept(scan: MediaRef, tmp_path: Path) -> None:
    kept = VolumeInput(SMALL, VolumeCache(tmp_path / "cache"))
    plain = read_item(scan, kept)
    entries = sorted((tmp_path / "cache").iterdir())
    moved = read_item(scan, kept, change=lambda media: augment_media(media, {"move"}, rng=np.random.default_rng(1)))
    assert moved.shape == plain.shape
    assert not torch.allclose(moved, plain)
    assert sorted((tmp_path / "cache").iterdir()) == entries
    assert torch.equal(read_item(scan, kept), plain)


def test_a_crop_around_one_side_finds_it_in_the_mirror(scan: MediaRef) -> None:
    def mirror(media: Media) -> Media:
        # This is the first seed that mirrors the volume.
        seed = next(seed for seed in range(99) if np.random.default_rng(seed).random() < 0.5)
        return augment_media(media, {"mirror"}, rng=np.random.default_rng(seed))

    raw = M3DTransform(window_hu=(-1000, 1000), size=(4, 4, 4))
    left = VolumeInput(CroppedTransform(raw, ("kidney_left",), margin_mm=0.0))
    right = VolumeInput(CroppedTransform(raw, ("kidney_right",), margin_mm=0.0))
    assert torch.allclose(read_item(scan, left, change=mirror), read_item(scan, right).flip(-1), atol=1e-6)
