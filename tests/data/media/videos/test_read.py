"""Clips by time and region, sampled by count or by rate, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.load import BLANKS, load_media, media_shape, preview
from medtune.data.media.videos.read import chosen_frames, read_video, video_extent, write_video
from medtune.data.prepared.copy_media import copy_media
from medtune.data.types import Box, Frames, MediaRef, Sampling, Size, Video
from tests.data.media.videos.synthetic_videos import SECRET, cine, counted, cut, film, mp4, numbers, sound

EVEN = [number / 25 for number in range(50)]


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> MediaRef:
    """Fifty frames in two seconds."""
    return MediaRef(mp4(tmp_path_factory.mktemp("even") / "even.mp4", EVEN), kind="video")


def seen(ref: MediaRef, sampling: Sampling | None = None) -> Video:
    video = load_media(ref, sampling)
    assert isinstance(video, Video)
    shape = media_shape(ref, sampling)
    height, width = video.frames_THWC.shape[1:3]
    assert shape == Frames(Size(width, height), video.times_s)
    return video


def test_all_frames_come_in_the_order_in_which_they_are_shown(even: MediaRef) -> None:
    video = seen(even)
    assert numbers(video.frames_THWC) == list(range(50))
    assert video.times_s == pytest.approx(EVEN)


@pytest.mark.parametrize(
    ("sampling", "chosen"),
    [
        (Sampling(5), [0, 12, 24, 37, 49]),
        (Sampling(1), [24]),
        (Sampling(99, per_s=5), [0, 5, 10, 15, 20, 25, 30, 35, 40, 45]),
        (Sampling(3, per_s=5), [0, 24, 49]),
        (Sampling(99, per_s=1000), list(range(50))),
    ],
)
def test_frames_by_count_and_by_rate(even: MediaRef, sampling: Sampling, chosen: list[int]) -> None:
    assert numbers(seen(even, sampling).frames_THWC) == chosen


def test_a_clip_begins_and_ends_where_it_is_told(even: MediaRef) -> None:
    part = replace(even, start_s=0.4, end_s=0.6)
    assert numbers(seen(part).frames_THWC) == [10, 11, 12, 13, 14]
    assert numbers(seen(replace(part, end_s=None), Sampling(2)).frames_THWC) == [10, 49]


def test_a_region_is_cut_out_and_boxes_are_drawn_on_every_frame(even: MediaRef) -> None:
    cut = seen(replace(even, region=Box(32, 8, 60, 40)), Sampling(2))
    assert cut.frames_THWC.shape == (2, 32, 28, 3)
    whole = seen(even, Sampling(2))
    assert np.array_equal(cut.frames_THWC, whole.frames_THWC[:, 8:40, 32:60])
    boxed = seen(replace(even, boxes=(Box(10, 10, 20, 20),)), Sampling(2))
    assert (boxed.frames_THWC[:, 9, 9] == (255, 0, 0)).all()


def test_a_variable_rate_is_sampled_by_time_not_by_number(tmp_path: Path) -> None:
    times_s = [0.0, 0.02, 0.04, 0.06, 0.08, 1.0, 1.5, 2.0]
    ref = MediaRef(mp4(tmp_path / "uneven.mp4", times_s), kind="video")
    assert numbers(seen(ref).frames_THWC) == list(range(8))
    assert seen(ref, Sampling(5)).times_s == pytest.approx([0.0, 0.08, 1.0, 1.5, 2.0])
    assert numbers(seen(replace(ref, start_s=0.9), Sampling(9, per_s=2)).frames_THWC) == [5, 6, 7]


def test_frames_are_shuffled_under_their_times(even: MediaRef) -> None:
    plain, mixed = seen(even, Sampling(6)), seen(replace(even, shuffled_by=3), Sampling(6))
    assert mixed.times_s == plain.times_s
    assert numbers(mixed.frames_THWC) != numbers(plain.frames_THWC)
    assert sorted(numbers(mixed.frames_THWC)) == sorted(numbers(plain.frames_THWC))
    assert np.array_equal(seen(replace(even, shuffled_by=3), Sampling(6)).frames_THWC, mixed.frames_THWC)
    for number in range(20):
        assert numbers(seen(replace(even, shuffled_by=number, end_s=0.08)).frames_THWC) == [1, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_s": 1.0, "end_s": 0.5}, "from 1 to 0.5 s ends before it begins"),
        ({"start_s": 1.0, "end_s": 1.0}, "ends before it begins"),
        ({"start_s": 0.0, "end_s": 2.5}, "does not lie in the video, which lasts 2.00 s"),
        ({"start_s": 3.0}, "ends before it begins|does not lie"),
        ({"start_s": -1.0}, "does not lie in the video"),
        ({"start_s": 0.41, "end_s": 0.43}, "no frame begins in the clip"),
        ({"region": Box(0, 0, 65, 10)}, "does not lie in the image of 64 x 48"),
    ],
)
def test_a_clip_that_is_not_in_its_video_is_refused(even: MediaRef, changes: dict[str, object], message: str) -> None:
    for read in (load_media, media_shape):
        with pytest.raises(ValueError, match=message) as caught:
            read(replace(even, **changes))  # type: ignore[arg-type]
        assert str(even.path) in str(caught.value)


def test_an_end_that_is_late_by_less_than_a_frame_is_the_end(even: MediaRef) -> None:
    assert len(seen(replace(even, end_s=2.03)).times_s) == 50


@pytest.mark.parametrize(
    ("name", "codec", "form"),
    [
        ("film.mpg", "mpeg1video", "mpeg"),
        ("film.vob", "mpeg2video", "vob"),
        ("film.ts", "libx264", "mpegts"),
        ("film.gif", "gif", "gif"),
        ("film.avi", "mpeg4", "avi"),
    ],
)
def test_films_of_other_containers_are_read_frame_by_frame(tmp_path: Path, name: str, codec: str, form: str) -> None:
    path = film(tmp_path / name, counted(28), codec=codec, form=form)
    ref, scale = MediaRef(path, kind="video"), 8 if codec == "gif" else 1
    found = numbers(seen(ref).frames_THWC)
    assert np.abs(np.subtract(found, range(28))).max() <= scale
    assert np.array_equal(seen(ref, Sampling(3)).frames_THWC, seen(ref).frames_THWC[[0, 13, 27]])
    assert video_extent(path).duration_s == pytest.approx(28 / 25, abs=0.02)
    (tmp_path / "media").mkdir()
    copied = copy_media({"m": (ref,)}, tmp_path / "media")
    assert copied.broken == {}
    stored = MediaRef(tmp_path / "media" / copied.files[path].file, kind="video")
    assert np.array_equal(seen(stored).frames_THWC, seen(ref).frames_THWC)


def test_a_clip_that_was_cut_without_encoding_shows_what_players_show(tmp_path: Path) -> None:
    whole = film(tmp_path / "whole.mp4", counted(28), codec="libx264", form="mp4", bf="2", crf="10")
    clip = cut(whole, tmp_path / "clip.mp4", start_s=0.6)
    assert numbers(seen(MediaRef(clip, kind="video")).frames_THWC) == list(range(15, 28))
    headless = cut(whole, tmp_path / "headless.mp4", first_packet=3)
    with pytest.raises(ValueError, match=r"headless\.mp4: the film begins in the middle: .*ffmpeg -ss START"):
        load_media(MediaRef(headless, kind="video"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty"), (b"no video at all" * 99, "no video that ffmpeg reads"), (None, "holds no video stream")],
)
def test_files_that_are_no_video_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "odd.mp4"
    if content is None:
        sound(path)
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_media(MediaRef(path, kind="video"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.mp4"):
        load_media(MediaRef(tmp_path / "none.mp4", kind="video"))


def test_a_file_that_is_cut_short_is_refused(shared_real: Path, tmp_path: Path) -> None:
    whole = (shared_real / "ultrasound_clips" / "sonocrop_echo-with-borders_roi.mp4").read_bytes()
    short = tmp_path / "short.mp4"
    short.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"damaged|cut short"):
        load_media(MediaRef(short, kind="video"), Sampling(4))


def test_damaged_frames_are_refused(even: MediaRef, tmp_path: Path) -> None:
    content = bytearray(even.path.read_bytes())
    start = content.index(b"mdat") + 4
    content[start : start + 2000] = bytes(2000)
    (tmp_path / "holes.mp4").write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        read_video(MediaRef(tmp_path / "holes.mp4", kind="video"))


def test_a_cine_dicom_is_a_video(tmp_path: Path) -> None:
    frames_THW = counted(6)[..., 0]
    cine(tmp_path / "cine.dcm", frames_THW)
    ref = MediaRef(tmp_path / "cine.dcm", kind="video")
    video = seen(ref)
    assert np.array_equal(video.frames_THWC[..., 1], frames_THW)
    assert video.times_s == pytest.approx([0.0, 0.04, 0.08, 0.12, 0.16, 0.2])
    assert numbers(seen(replace(ref, start_s=0.08), Sampling(2)).frames_THWC) == [2, 5]


def test_a_cine_dicom_without_times_is_refused_and_tells_nobodys_name(tmp_path: Path) -> None:
    cine(tmp_path / "cine.dcm", counted(3)[..., 0], frame_time_ms=None)
    ref = MediaRef(tmp_path / "cine.dcm", kind="video")
    with pytest.raises(ValueError, match=r"how fast its frames follow.*--frames-per-s N") as caught:
        load_media(ref)
    assert SECRET not in str(caught.value)
    assert seen(replace(ref, frames_per_s=50)).times_s == pytest.approx((0, 0.02, 0.04))
    cine(tmp_path / "timed.dcm", counted(4)[..., 0], frame_time_ms=10)
    assert seen(replace(ref, path=tmp_path / "timed.dcm", frames_per_s=50)).times_s == pytest.approx(
        (0, 0.01, 0.02, 0.03)
    )


def test_frame_times_may_differ_in_a_cine_dicom(tmp_path: Path) -> None:
    dataset = cine(tmp_path / "cine.dcm", counted(3)[..., 0], frame_time_ms=None)
    dataset.FrameTimeVector = [0, 100, 50]
    dataset.save_as(tmp_path / "cine.dcm")
    extent = video_extent(tmp_path / "cine.dcm")
    assert extent.times_s == pytest.approx([0.0, 0.1, 0.15])
    assert extent.duration_s == pytest.approx(0.2)


@pytest.mark.parametrize("is_grey", [True, False])
def test_written_frames_come_back_to_the_bit(tmp_path: Path, is_grey: bool) -> None:
    frames_THWC = np.random.default_rng(0).integers(0, 256, (5, 33, 47, 3)).astype(np.uint8)
    if is_grey:
        frames_THWC[...] = frames_THWC[..., :1]
    times_s = (0.0, 0.1, 0.2, 0.35, 0.4)
    for name in ("one.mkv", "two.mkv"):
        write_video(tmp_path / name, frames_THWC, times_s, 0.5)
    assert (tmp_path / "one.mkv").read_bytes() == (tmp_path / "two.mkv").read_bytes()
    video = seen(MediaRef(tmp_path / "one.mkv", kind="video"))
    assert np.array_equal(video.frames_THWC, frames_THWC)
    assert video.times_s == pytest.approx(times_s)


def test_one_pixel_is_a_video_too(tmp_path: Path) -> None:
    write_video(tmp_path / "dot.mkv", np.full((2, 1, 1, 3), 7, np.uint8), (0.0, 0.1), 0.2)
    assert seen(MediaRef(tmp_path / "dot.mkv", kind="video")).frames_THWC.tolist() == [[[[7, 7, 7]]]] * 2


def test_the_blank_video_is_black() -> None:
    video = seen(BLANKS["video"])
    assert len(video.times_s) == 64
    assert video.frames_THWC.max() == 0


def test_the_preview_shows_four_frames_side_by_side(even: MediaRef) -> None:
    picture = preview([even]).pixels_HWC
    assert picture.shape == (48, 4 * 64, 3)
    assert numbers(np.stack(np.split(picture, 4, axis=1))) == [0, 16, 33, 49]


def test_sampling_wants_numbers_above_0() -> None:
    for wrong in ({"at_most": 0}, {"at_most": 3, "per_s": 0.0}):
        with pytest.raises(ValueError, match="above 0"):
            Sampling(**wrong)


def test_one_frame_can_be_sampled_anyhow() -> None:
    assert chosen_frames([0.0], Sampling(8)) == chosen_frames([0.0], Sampling(8, per_s=3.0)) == [0]


@pytest.mark.parametrize(("name", "count"), [("butterfly-ocular-phantom.mp4", 369), ("clarius-ocular-short.mp4", 50)])
def test_real_clips_are_sampled_across_their_length(shared_real: Path, name: str, count: int) -> None:
    """The Butterfly's frame rate varies from 9 to 23 a second."""
    ref = MediaRef(shared_real / "ultrasound_clips" / f"itkpocus_{name}", kind="video")
    extent = video_extent(ref.path)
    assert len(extent.times_s) == count
    times_s = seen(ref, Sampling(8)).times_s
    assert times_s == pytest.approx(np.linspace(0, extent.times_s[-1], 8), abs=0.06)


def test_real_cine_dicom(shared_real: Path) -> None:
    video = seen(MediaRef(shared_real / "ultrasound_clips" / "pydicom_us_cine_30f.dcm", kind="video"), Sampling(4))
    assert video.frames_THWC.shape == (4, 240, 320, 3)
    assert video.times_s == pytest.approx([0.0, 10 / 30, 19 / 30, 29 / 30], abs=1e-4)
    sector = video.frames_THWC[:, 40:180, 60:220].astype(int)
    assert 10 < sector.mean() < 60
    assert np.abs(sector - sector.mean(axis=-1, keepdims=True)).mean() < 3, "an ultrasound picture is grey"


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
