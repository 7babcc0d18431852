"""Videos in a prepared folder."""

from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.load import load_media
from medtune.data.prepared.copy_media import copy_media
from medtune.data.types import Box, MediaRef, Video
from tests.data.media.videos.synthetic_videos import SECRET, cine, counted, mp4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "media").mkdir()
    return tmp_path / "media"


def test_a_container_is_linked_under_its_content(tmp_path: Path, folder: Path) -> None:
    path = mp4(tmp_path / "Jane Doe.MP4", [0.0, 0.04, 0.08])
    ref = MediaRef(path, kind="video", start_s=0.0, end_s=0.08, region=Box(0, 0, 64, 48))
    stored = copy_media({"a": (ref,), "b": (MediaRef(path, kind="video"),)}, folder).files[path]
    assert [file.name for file in folder.iterdir()] == [stored.file]
    assert stored.file == f"{stored.digest}.mp4"
    assert (folder / stored.file).samefile(path)
    assert stored.size == (64, 48)


def test_nothing_of_a_dicom_header_survives(tmp_path: Path, folder: Path) -> None:
    frames_THW = counted(5)[..., 0]
    cine(tmp_path / "cine.dcm", frames_THW)
    ref = MediaRef(tmp_path / "cine.dcm", kind="video")
    stored = copy_media({"a": (ref,)}, folder).files[ref.path]
    content = (folder / stored.file).read_bytes()
    assert SECRET.encode() not in content
    assert b"cine" not in content
    video, original = load_media(MediaRef(folder / stored.file, kind="video")), load_media(ref)
    assert isinstance(video, Video)
    assert isinstance(original, Video)
    assert np.array_equal(video.frames_THWC, original.frames_THWC)
    assert video.times_s == pytest.approx(original.times_s, abs=1e-3)


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (MediaRef(Path(), kind="video", start_s=0.0, end_s=9.0), "lasts 0.12 s"),
        (MediaRef(Path(), kind="video", start_s=0.08, end_s=0.04), "ends before it begins"),
        (MediaRef(Path(), kind="video", region=Box(0, 0, 99, 9)), "does not lie in the image"),
    ],
)
def test_a_clip_that_does_not_lie_in_its_video_is_refused(
    tmp_path: Path, folder: Path, ref: MediaRef, message: str
) -> None:
    path = mp4(tmp_path / "clip.mp4", [0.0, 0.04, 0.08])
    wrong = MediaRef(path, kind="video", start_s=ref.start_s, end_s=ref.end_s, region=ref.region)
    stored = copy_media({"a": (wrong,), "b": (MediaRef(path, kind="video"),)}, folder)
    assert message in stored.broken["a"].reason
    assert "b" not in stored.broken


def test_a_name_that_says_no_container_is_refused(tmp_path: Path, folder: Path) -> None:
    path = mp4(tmp_path / "clip.mp4", [0.0, 0.04])
    odd = path.rename(tmp_path / "clip.bin")
    assert "ends with one of .mp4" in copy_media({"a": (MediaRef(odd, kind="video"),)}, folder).broken["a"].reason
