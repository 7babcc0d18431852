"""Tests that a clip is recognised in another container, at another size or quality, and that others are told apart."""

from pathlib import Path

import av
import pytest

from medtune.data.media.videos.read import read_video
from medtune.data.prepared.decoded_content import Content, decoded_content
from medtune.data.prepared.lookalikes import lookalike_groups
from medtune.data.types import MediaRef
from tests.data.media.videos.synthetic_videos import mp4
from tests.data.prepared.content.scans import prepared

ECHO, TISSUE = "sonocrop_echo-with-borders_roi.mp4", "sonocrop_simple-soft-tissue_roi.mp4"


def content(path: Path) -> Content:
    found = decoded_content("video", path)
    assert found is not None
    return found


def copied_packets(path: Path, out: Path) -> Path:
    """Writes the packets of a video into another container, as they are."""
    with av.open(str(path)) as read, av.open(str(out), "w") as written:
        stream = read.streams.video[0]
        copy = written.add_stream_from_template(stream)
        for packet in read.demux(stream):
            if packet.dts is not None:
                packet.stream = copy
                written.mux(packet)
    return out


def encoded_again(path: Path, out: Path, *, share: float, crf: int) -> Path:
    """Writes the frames of a video at another size and quality."""
    frames_THWC = read_video(MediaRef(path, kind="video")).frames_THWC
    height, width = (round(side * share / 2) * 2 for side in frames_THWC.shape[1:3])
    with av.open(str(out), "w") as written:
        stream = written.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.codec_context.options = {"crf": str(crf), "preset": "ultrafast"}
        for frame_HWC in frames_THWC:
            picture = av.VideoFrame.from_ndarray(frame_HWC, format="rgb24").reformat(width, height)
            written.mux(stream.encode(picture))
        written.mux(stream.encode(None))
    return out


def test_a_clip_in_another_container_is_the_same(tmp_path: Path) -> None:
    path = mp4(tmp_path / "clip.mp4", [n / 25 for n in range(40)])
    copy = copied_packets(path, tmp_path / "clip.mkv")
    assert path.read_bytes() != copy.read_bytes()
    assert content(path).digest == content(copy).digest
    longer = mp4(tmp_path / "longer.mp4", [n / 25 for n in range(41)])
    assert content(longer).digest != content(path).digest


def test_a_clip_in_two_containers_may_not_be_in_train_and_test(tmp_path: Path) -> None:
    paths = [mp4(tmp_path / f"{n}.mp4", [k / 25 for k in range(n)]) for n in (20, 30, 40)]
    copy = copied_packets(paths[0], tmp_path / "copy.mkv")
    with pytest.raises(ValueError, match="1 image is in two splits"):
        prepared([*paths, copy], ("train", "val", "test", "test"), tmp_path / "out", kind="video")


def test_a_real_clip_encoded_again_looks_alike_and_other_clips_do_not(tmp_path: Path, shared_real: Path) -> None:
    clips = shared_real / "ultrasound_clips"
    one, other = content(clips / ECHO), content(clips / TISSUE)
    again = content(encoded_again(clips / ECHO, tmp_path / "again.mp4", share=0.5, crf=35))
    assert again.digest != one.digest
    looks = {"one": one.pictures, "other": other.pictures, "again": again.pictures}
    assert lookalike_groups(looks).several == {"one": "again", "again": "again"}
