"""Tests that damage inside of a film is found, with its second, and that whole films are never called damaged."""

import random
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from medtune.data.media.videos.container import check_frames, hides_damage
from medtune.data.media.videos.read import read_video
from medtune.data.prepared.copy_media import copy_media
from medtune.data.types import MediaRef
from tests.data.media.videos.synthetic_videos import counted, mp4
from tests.golden.files import REAL, shared_part

CODECS = {
    **{"libvpx-vp9": ".webm", "libx265": ".mp4", "libx264": ".mp4"},
    **{"mpeg4": ".avi", "mjpeg": ".mkv", "ffv1": ".mkv", "mpeg2video": ".mpg"},
}
"""Codecs of which each kind of container that scanners and phones write is made."""


def _film(path: Path, codec: str, count: int = 40, options: Mapping[str, str] = MappingProxyType({})) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        assert isinstance(stream, VideoStream)
        stream.height, stream.width, stream.options = 96, 128, dict(options)
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        random_HWC = np.random.default_rng(0).integers(0, 60, (count, 96, 128, 3), dtype=np.uint8)
        for number, frame_HWC in enumerate(counted(count, height=96, width=128) // 2 + random_HWC):
            picture = av.VideoFrame.from_ndarray(frame_HWC, format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def _packets(path: Path) -> list[tuple[int, int, float]]:
    """Returns the place in the file, the size and the time of each packet."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        unit = float(stream.time_base or 1)
        return [(p.pos, p.size, (p.pts or 0) * unit) for p in container.demux(stream) if p.size and p.pos is not None]


def _damaged(path: Path, number: int) -> float:
    """Overwrites most of one of the largest packets behind the first, and returns its time."""
    packets = sorted(_packets(path)[5:], key=lambda packet: -packet[1])
    content, (place, size, time_s) = bytearray(path.read_bytes()), packets[number]
    begin, end = place + size // 3, place + size - 2
    content[begin:end] = random.Random(number).randbytes(end - begin)
    path.write_bytes(content)
    return time_s - min(time for _, _, time in _packets(path))


@pytest.mark.parametrize("codec", CODECS)
def test_whole_films_of_usual_codecs_are_whole(tmp_path: Path, codec: str) -> None:
    check_frames(_film(tmp_path / f"film{CODECS[codec]}", codec))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_damage_in_the_middle_is_found_with_its_second(
    tmp_path: Path, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    path = _film(tmp_path / "film.mp4", "libx264")
    check_frames(path)
    time_s = _damaged(path, number)
    with pytest.raises(ValueError, match=rf"film.mp4: the video is damaged at {time_s:.2f} s\. Copy"):
        check_frames(path)
    ref = MediaRef(path, kind="video")
    (tmp_path / "media").mkdir()
    assert f"damaged at {time_s:.2f} s" in copy_media({"film": (ref,)}, tmp_path / "media").broken["film"].reason
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    ("codec", "options"),
    [
        ("libvpx-vp9", {"lossless": "1"}),
        ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}),
        ("libx265", {"x265-params": "hash=1:log-level=none"}),
    ],
)
def test_damage_that_the_usual_decoder_hides_is_found(tmp_path: Path, codec: str, options: dict[str, str]) -> None:
    path = _film(tmp_path / "film.mkv", codec, options=options)
    check_frames(path)
    whole = path.read_bytes()
    for number in range(8):
        path.write_bytes(whole)
        _damaged(path, number)
        with pytest.raises(ValueError, match=r"film\.mkv: the video is damaged at"):
            check_frames(path)


@pytest.mark.parametrize("suffix", [".mp4", ".ts", ".mkv"])
def test_films_whose_damage_nothing_tells_are_told(tmp_path: Path, suffix: str) -> None:
    hashed = {"x265-params": "hash=1:log-level=none"}
    assert not hides_damage(_film(tmp_path / f"hashed{suffix}", "libx265", count=4, options=hashed))
    assert hides_damage(
        _film(tmp_path / f"plain{suffix}", "libx265", count=4, options={"x265-params": "log-level=none"})
    )
    assert not hides_damage(_film(tmp_path / "usual.mp4", "libx264", count=4))


def test_a_film_that_was_cut_without_encoding_is_whole(tmp_path: Path) -> None:
    whole = mp4(tmp_path / "whole.mp4", [0.04 * frame for frame in range(40)])
    with av.open(str(whole)) as source, av.open(str(tmp_path / "cut.mp4"), "w") as cut:
        stream = cut.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.dts is not None]
        begin = next(place for place, packet in enumerate(packets) if place > 5 and packet.is_keyframe)
        for packet in packets[begin:]:
            packet.stream = stream
            cut.mux(packet)
    check_frames(tmp_path / "cut.mp4")


def test_real_clips_are_whole_and_the_damaged_case_is_not(shared_real: Path) -> None:
    clips = sorted((shared_real / "ultrasound_clips").glob("*.mp4"))
    assert len(clips) == 4
    for clip in clips:
        check_frames(clip)
    damaged = shared_part("cases/turn4/videos/F01_c3_damaged_middle.mp4", REAL)
    with pytest.raises(ValueError, match=r"the video is damaged at 0\.00 s"):
        check_frames(damaged)
    with pytest.raises(ValueError, match=r"the video is damaged at 0\.00 s"):
        read_video(MediaRef(damaged, kind="video", start_s=0.1, end_s=0.2))
