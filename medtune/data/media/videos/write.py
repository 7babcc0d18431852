"""Writes video frames to a file without loss, as FFV1 in Matroska with nothing but pictures and times."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

STORED_SUFFIX = ".mkv"
_UNIT = Fraction(1, 1000)
"""The unit of times in Matroska, a millisecond."""


def write_video(path: Path, frames_THWC: NDArray[np.uint8], times_s: Sequence[float], duration_s: float) -> None:
    """Writes RGB frames to a video file, as one channel if all three are equal; the same frames give the same bytes.

    Args:
        path: The file to write.
        frames_THWC: The frames, uint8.
        times_s: The second at which each frame is shown, ascending.
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
