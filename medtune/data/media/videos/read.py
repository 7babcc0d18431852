"""Reads a video by its reference: the clip between two times, a region of every frame, and the sampled frames.

Shapes: T frames, H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.dicom import Cine, decode_cine, is_dicom
from medtune.data.media.images import check_box, draw_box
from medtune.data.media.stored_media import check_bytes
from medtune.data.media.videos.container import decoded_frames, timeline
from medtune.data.types import Frames, MediaRef, Sampling, Size, Video

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

STORED_SUFFIX = ".mkv"
_UNIT = Fraction(1, 1000)
"""The unit of times in Matroska, a millisecond."""


def chosen_frames(times_s: Sequence[float], sampling: Sampling) -> list[int]:
    """Returns the numbers of the video frames that a sampling chooses, in order.

    Where a variable frame rate leaves a gap, the frame that is nearest in time is chosen, twice if need be.

    Args:
        times_s: The second at which each frame of the clip is shown, ascending, at least one.

    >>> chosen_frames([0.0, 0.1, 0.2, 0.3, 0.4], Sampling(3)), chosen_frames([0.0, 0.1], Sampling(3))
    ([0, 2, 4], [0, 1])
    >>> chosen_frames([0.0, 0.1, 0.2, 0.3, 0.4], Sampling(9, per_s=5.0))
    [0, 2, 4]
    """
    if sampling.per_s is not None:
        wanted_s = np.arange(times_s[0], times_s[-1] + 1e-9, 1 / sampling.per_s)
        chosen = sorted(set(_nearest(times_s, wanted_s)))
        if len(chosen) <= sampling.at_most:
            return chosen
    if len(times_s) <= sampling.at_most:
        return list(range(len(times_s)))
    if sampling.at_most == 1:
        return _nearest(times_s, [(times_s[0] + times_s[-1]) / 2])
    return _nearest(times_s, np.linspace(times_s[0], times_s[-1], sampling.at_most))


def _nearest(times_s: Sequence[float], wanted_s: Sequence[float] | NDArray[np.float64]) -> list[int]:
    if len(times_s) == 1:
        return [0] * len(wanted_s)
    known, asked = np.asarray(times_s), np.asarray(wanted_s)
    after = np.searchsorted(known, asked).clip(1, len(known) - 1)
    is_before = asked - known[after - 1] <= known[after] - asked
    return [int(number) for number in after - is_before]


class Extent(NamedTuple):
    """The size and times of the frames in a whole video file."""

    size: Size  # The size of a frame, in pixels.
    times_s: tuple[float, ...]  # The second at which each frame is shown, starting at 0.
    duration_s: float  # The second at which the last frame ends.


def read_video(ref: MediaRef, sampling: Sampling | None = None) -> Video:
    """Returns the sampled frames of a video clip, cut to its region, with red boxes drawn; all frames by default."""
    check_bytes(ref.path)
    extent = video_extent(ref.path, ref.frames_per_s)
    numbers = _numbers(ref, extent, sampling)
    frames_THWC = _decoded(ref.path, numbers, ref.frames_per_s)
    if ref.boxes:
        frames_THWC = frames_THWC.copy()
        for frame_HWC in frames_THWC:
            for box in ref.boxes:
                draw_box(frame_HWC, box)
    if ref.region is not None:
        x0, y0, x1, y1 = ref.region
        frames_THWC = np.ascontiguousarray(frames_THWC[:, y0:y1, x0:x1])
    if ref.shuffled_by is not None:
        frames_THWC = frames_THWC[shuffled_order(len(frames_THWC), ref.shuffled_by)]
    return Video(frames_THWC, tuple(extent.times_s[number] for number in numbers))


def video_frames(ref: MediaRef, sampling: Sampling | None = None) -> Frames:
    """Returns the size and times of the frames that `read_video` would return, from the video's packets alone."""
    extent = video_extent(ref.path, ref.frames_per_s)
    times_s = tuple(extent.times_s[number] for number in _numbers(ref, extent, sampling))
    if ref.region is None:
        return Frames(extent.size, times_s)
    x0, y0, x1, y1 = ref.region
    return Frames(Size(x1 - x0, y1 - y0), times_s)


class WholeFrames(NamedTuple):
    """The number of all frames of a video file, and some of them, RGB, uint8, (T, H, W, 3)."""

    num_frames: int
    frames_THWC: NDArray[np.uint8]


def read_whole_frames(path: Path, at_most: int) -> WholeFrames:
    """Returns the frames in the middles of `at_most` equal parts of a video; all frames of one that has no more.

    The parts are counted in frames: containers round times, each in its own way, and leave the order of frames alone.
    """
    extent = video_extent(path)
    count = len(extent.times_s)
    parts = min(count, at_most)
    numbers = [(2 * part + 1) * count // (2 * parts) for part in range(parts)]
    return WholeFrames(count, _decoded(path, numbers))


def video_extent(path: Path, frames_per_s: float | None = None) -> Extent:
    """Returns the frame size, the times of all frames and the duration of a video or a cine DICOM."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such video. Check the folder that you gave.")
    if is_dicom(path):
        cine = _cine(path, frames_per_s)
        height, width = cine.frames_THWC.shape[1:3]
        return Extent(Size(width, height), cine.times_s, cine.duration_s)
    whole = timeline(path)
    return Extent(whole.size, whole.times_s, whole.duration_s)


def check_clip(ref: MediaRef, extent: Extent) -> None:
    """Checks that a clip lies in its video; its end may be late by one frame, because times are often rounded."""
    start_s = 0.0 if ref.start_s is None else ref.start_s
    end_s = extent.duration_s if ref.end_s is None else ref.end_s
    asked = f"the clip from {start_s:g} to {end_s:g} s"
    if not start_s < end_s:
        raise ValueError(f"{asked} ends before it begins. Times are in seconds from the file's first frame.")
    frame_s = extent.duration_s / len(extent.times_s)
    if start_s < 0 or end_s > extent.duration_s + frame_s:
        raise ValueError(
            f"{asked} does not lie in the video, which lasts {extent.duration_s:.2f} s. "
            "Times are in seconds from the file's first frame; is it another cut of the video?"
        )
    if not _frames_between(extent.times_s, start_s, end_s):
        raise ValueError(f"no frame begins in {asked}. Make the clip longer.")
    for box in (*ref.boxes, *((ref.region,) if ref.region else ())):
        check_box(box, extent.size)


def _decoded(path: Path, numbers: Sequence[int], frames_per_s: float | None = None) -> NDArray[np.uint8]:
    if is_dicom(path):
        return _cine(path, frames_per_s).frames_THWC[list(numbers)]
    stamps = timeline(path).stamps
    return decoded_frames(path, [stamps[number] for number in numbers])


def shuffled_order(count: int, number: int) -> list[int]:
    """Returns the numbers of `count` video frames in a random order that differs from their own order."""
    rng = np.random.default_rng(number)
    order = rng.permutation(count)
    while count > 1 and np.array_equal(order, np.arange(count)):
        order = rng.permutation(count)
    return [int(each) for each in order]


def _numbers(ref: MediaRef, extent: Extent, sampling: Sampling | None) -> list[int]:
    try:
        check_clip(ref, extent)
    except ValueError as error:
        raise ValueError(f"{ref.path}: {error}") from error
    start_s = 0.0 if ref.start_s is None else ref.start_s
    shown = _frames_between(extent.times_s, start_s, extent.duration_s if ref.end_s is None else ref.end_s)
    if sampling is None:
        return shown
    chosen = chosen_frames([extent.times_s[number] for number in shown], sampling)
    return [shown[number] for number in chosen]


def _frames_between(times_s: Sequence[float], start_s: float, end_s: float) -> list[int]:
    # The tolerance of a hundredth of a millisecond lets times that were written with few digits meet their frame.
    first, last = np.searchsorted(times_s, [start_s - 1e-5, end_s - 1e-5])
    return list(range(int(first), int(last)))


# The result is cached because the times and the pixels of one file are asked for, and each decodes the whole cine.
@lru_cache(maxsize=2)
def _cine(path: Path, frames_per_s: float | None) -> Cine:
    return decode_cine(path, frames_per_s)


def write_video(path: Path, frames_THWC: NDArray[np.uint8], times_s: Sequence[float], duration_s: float) -> None:
    """Writes RGB frames to a video file, as one channel if all three are equal; the same frames give the same bytes.

    Args:
        duration_s: The second at which the last frame ends.
    """
    import av

    is_grey = bool((frames_THWC == frames_THWC[..., :1]).all())
    stamps = [round(time_s / _UNIT) for time_s in (*times_s, duration_s)]
    # "bitexact" leaves out the random id and the program's name, which Matroska would carry.
    with av.open(str(path), "w", format="matroska", container_options={"fflags": "+bitexact"}) as container:
        # The rate says how long the last frame is shown.
        stream = container.add_stream("ffv1", rate=Fraction(len(frames_THWC) / duration_s).limit_denominator(1000))
        stream.height, stream.width = frames_THWC.shape[1:3]
        stream.pix_fmt = "gray" if is_grey else "bgr0"
        stream.time_base = stream.codec_context.time_base = _UNIT
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        stream.codec_context.thread_count = 1
        for number, frame_HWC in enumerate(frames_THWC):
            picture = _picture(frame_HWC, is_grey=is_grey)
            picture.pts, picture.time_base = stamps[number], _UNIT
            picture.duration = stamps[number + 1] - stamps[number]
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


def _picture(frame_HWC: NDArray[np.uint8], *, is_grey: bool) -> VideoFrame:
    from av.video.frame import VideoFrame

    if is_grey:
        return VideoFrame.from_ndarray(np.ascontiguousarray(frame_HWC[..., 0]), format="gray")
    return VideoFrame.from_ndarray(np.ascontiguousarray(frame_HWC), format="rgb24").reformat(format="bgr0")
