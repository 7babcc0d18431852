"""Every file of a prepared folder's media is held against its name when it is first read, whoever reads it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.videos.read import read_video
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.ctvit_encoding import read_encoding
from medtune.data.media.volumes.formats.stored_volume import write_volume
from medtune.data.media.volumes.read import load_volume, read_volume
from medtune.data.media.volumes.transforms.m3d import M3DTransform
from medtune.data.prepared.copy_media import link_file
from medtune.data.types import MediaRef
from tests.data.media.videos.synthetic_videos import counted, film
from tests.data.media.volumes.synthetic_volumes import nifti, scan


def _film(path: Path, seed: int) -> Path:
    return film(path, counted(3 + seed), codec="mpeg4", form="avi")


def _nifti(path: Path, seed: int) -> Path:
    return nifti(path, scan(seed=seed))


def _stored(path: Path, seed: int) -> Path:
    write_volume(path, read_volume(_nifti(path.with_name(f"{seed}.nii.gz"), seed)))
    return path


def _encoding(path: Path, seed: int) -> Path:
    with path.open("wb") as file:
        np.savez(file, arr=np.full((1, 2, 2, 2, 3), seed, np.float32))
    return path


def _masked(path: Path) -> object:
    masked = MediaRef(nifti(path.parent.parent / "ct.nii.gz"), kind="volume", masks=(("liver", path),))
    return load_volume(masked, {"liver"})


KINDS: Mapping[str, tuple[str, Callable[[Path, int], Path], Callable[[Path], object]]] = {
    "a film": (".avi", _film, lambda path: read_video(MediaRef(path, kind="video"))),
    "a scan": (".nii.gz", _nifti, lambda path: load_volume(MediaRef(path, kind="volume"))),
    "a series": (".volume.safetensors", _stored, lambda path: load_volume(MediaRef(path, kind="volume"))),
    "a mask": (".nii.gz", _nifti, _masked),
    "an encoding": (".npz", _encoding, read_encoding),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_holds_something_else_than_its_name_says_is_refused(kind: str, tmp_path: Path) -> None:
    suffix, write, read = KINDS[kind]
    (media := tmp_path / "prepared" / "media").mkdir(parents=True)
    (tmp_path / "prepared" / "manifest.json").write_text("{}")
    stored = media / link_file(write(tmp_path / f"whole{suffix}", 1), media, suffix).file
    assert read(stored) is not None
    other = write(tmp_path / f"other{suffix}", 2)
    stored.unlink()
    stored.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match=rf"{stored.name}: this file of a prepared folder shows something else"):
        read(stored)


def test_a_kept_volume_of_which_a_bit_changed_is_refused_when_it_is_first_read(tmp_path: Path) -> None:
    ref, transform = MediaRef(nifti(tmp_path / "ct.nii.gz"), kind="volume"), M3DTransform(size=(4, 8, 8))
    kept = VolumeCache(tmp_path / "cache").transformed(ref, transform)
    np.testing.assert_array_equal(VolumeCache(tmp_path / "cache").transformed(ref, transform), kept)
    (entry,) = (tmp_path / "cache").iterdir()
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    entry.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{entry.name}: damaged, or changed\. Delete this file"):
        VolumeCache(tmp_path / "cache").transformed(ref, transform)
