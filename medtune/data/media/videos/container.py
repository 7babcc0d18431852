"""Decodes chosen frames of a video file that ffmpeg reads, and reads the times of all frames from its packets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Size

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.sidedata.sidedata import SideData
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

GIF_SUFFIX = ".gif"
VIDEO_SUFFIXES = (
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".vob", ".ts", ".m2ts", ".wmv", GIF_SUFFIX,
)  # fmt: skip

_ONE_THREAD = "NONE"
"""Threads that share a frame lose its mark of damage, and write to the log beside that of their file."""
_HARMLESS = re.compile(
    r"mmco|co located|unref|reorder|no frame|missing (?:reference|picture)|reference frames|find ref|\bSEI\b",
    re.IGNORECASE,
)
"""What decoders say of films that were cut without being encoded again, whose frames are whole."""
_CHECKSUMS = {"hevc": {"err_detect": "crccheck"}}
_SECOND = {"vp9": "libvpx-vp9"}
_SUFFIX_SEI, _PICTURE_HASH = 40, 132
"""The kinds of unit and message in which H.265 may state the hash of a picture. Source: ITU-T H.265, 7.3.1 and D.2."""
_TECHNICAL = frozenset(
    (
        "major_brand",
        "minor_version",
        "compatible_brands",
        "vendor_id",
        "language",
        "duration",
        "encoder",
        "handler_name",
    )
)
_USUAL = re.compile(r"(?:(?:Video|Sound|Media|Data|Core Media Video) ?Handler|Lav[cf][\d.]*(?: \w+)?)?", re.IGNORECASE)
_EXACT = {"fflags": "+bitexact"}
_WITHOUT_INDEX = ("mpeg", "mpegts")
"""Containers in which a seek is a guess that may end behind the wanted frame: these are decoded from the start."""
_DISPLAY_MATRIX = "DISPLAYMATRIX"
_Matrix = tuple[int, int, int, int]
_TURNS = {(s, 0, 0, t) for s in (1, -1) for t in (1, -1)} | {(0, s, t, 0) for s in (1, -1) for t in (1, -1)}
_MAX_SLANT = 0.01


@dataclass(frozen=True, slots=True)
class Timeline:
    """The frames of a video file in the order in which they are shown."""

    size: Size  # The size of a frame as it is shown, in pixels.
    times_s: tuple[float, ...]  # The second at which each frame is shown, starting at 0.
    duration_s: float  # The second at which the last frame ends.
    stamps: tuple[int, ...]  # The times of the frames in the stream's own unit.
    keyframes: tuple[int, ...]  # The stamps of the frames that can be decoded by themselves, ascending.


def timeline(path: Path) -> Timeline:
    """Returns the times of all frames of a video file, read from its packets; only the first frame is decoded."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such video. Check the folder that you gave.")
    status = path.stat()
    return _timeline(path, status.st_size, status.st_mtime_ns)


# The result is cached because many clips of one long file are read one after another.
@lru_cache(maxsize=256)
def _timeline(path: Path, num_bytes: int, mtime_ns: int) -> Timeline:
    if num_bytes == 0:
        raise ValueError(f"{path}: the file is empty. Copy or download it again.")
    with _opened(path) as (container, stream):
        stored = [packet for packet in container.demux(stream) if packet.size]
        # A film that was cut without being encoded again keeps frames in front of its beginning, which nobody is shown.
        packets = [packet for packet in stored if not packet.is_discard]
        if not packets:
            raise ValueError(f"{path}: the video has no frames. Copy or download it again.")
        if len(stored) < stream.frames:
            raise ValueError(
                f"{path}: the file is cut short: {len(stored)} of {stream.frames} frames are there. "
                "Copy or download it again."
            )
        if not stored[0].is_keyframe:
            raise ValueError(
                f"{path}: the film begins in the middle: its first frames are made of one that was cut away. Cut it "
                "out of the whole film again, with encoding: ffmpeg -ss START -i WHOLE -c:v libx264 NEW.mp4"
            )
        if stream.time_base is None or any(packet.pts is None for packet in packets):
            raise ValueError(
                f"{path}: the file does not say when its frames are shown. "
                "Convert it: ffmpeg -i OLD -c:v libx264 NEW.mp4"
            )
        packets.sort(key=lambda packet: packet.pts or 0)
        unit_s, first = float(stream.time_base), packets[0].pts or 0
        stamps = tuple(packet.pts or 0 for packet in packets)
        times_s = tuple((stamp - first) * unit_s for stamp in stamps)
        gaps_s = np.diff(times_s)
        last_s = (
            packets[-1].duration * unit_s if packets[-1].duration else float(np.median(gaps_s)) if len(gaps_s) else 0.0
        )
        container.seek(stamps[0], stream=stream, backward=True)
        shown = next(container.decode(stream), None)
        if shown is None:
            raise ValueError(f"{path}: no frame of the video decodes. Copy or download it again.")
        is_turned = not _matrix(shown, path)[0]
        size = Size(stream.codec_context.width, stream.codec_context.height)
        return Timeline(
            size=Size(*reversed(size)) if is_turned else size,
            times_s=times_s,
            duration_s=times_s[-1] + last_s,
            stamps=stamps,
            keyframes=tuple(packet.pts or 0 for packet in packets if packet.is_keyframe),
        )


def check_frames(path: Path) -> None:
    """Decodes all frames of a video file, and raises an error that says at which second the first damaged one is.

    A decoder conceals damage: it repeats a part of another frame, and says so in the frame's flags, or in its log. The
    one of VP9 says nothing, so that a second one decodes its films too: libvpx refuses a frame that does not end where
    its data end. Films of H.265 are held against the checksums that their encoder may have written.
    """
    import av
    from av import logging

    level = logging.get_level()
    logging.set_level(logging.ERROR)
    damaged, begin = list[float](), timeline(path).stamps[0]
    try:
        with logging.Capture(local=True) as said, _opened(path) as (container, stream):
            stream.thread_type = _ONE_THREAD
            unit_s = float(stream.time_base or 1)
            decoders = [stream.codec_context, *_second_decoder(stream)]
            names = {decoder.name for decoder in decoders}
            for packet in container.demux(stream):
                seen, stamp, is_whole = len(said), packet.pts, not packet.is_corrupt
                for decoder in decoders if packet.size else decoders[:1]:
                    try:
                        frames = decoder.decode(packet)
                        damaged += [frame.time for frame in frames if frame.is_corrupt and frame.time is not None]
                    except av.FFmpegError:
                        is_whole = False
                texts = [text for _, name, text in said[seen:] if name in names]
                if stamp is not None and not (is_whole and all(map(_HARMLESS.search, texts))):
                    damaged.append(stamp * unit_s)
    finally:
        logging.set_level(level)
    if damaged:
        raise ValueError(f"{path}: {_damaged(max(0.0, min(damaged) - begin * unit_s))}")


def hides_damage(path: Path) -> bool:
    """Returns whether a film is of H.265 without hashes of pictures, so that no decoder tells damage inside of it."""
    with _opened(path) as (container, stream):
        if stream.codec_context.name not in _CHECKSUMS:
            return False
        units = _units(bytes(next(container.demux(stream))), stream.codec_context.extradata or b"")
        return not any(unit[0] >> 1 & 0x3F == _SUFFIX_SEI and unit[2] == _PICTURE_HASH for unit in units if unit[2:])


def _units(packet: bytes, about: bytes) -> list[bytes]:
    """Returns the units of a packet, which stand behind their lengths, or behind start codes as in broadcasts."""
    if about[:1] != b"\x01":
        return re.split(rb"\x00\x00\x01", packet)[1:]
    found, place, width = list[bytes](), 0, (about[21] & 3) + 1
    while place < len(packet):
        begin = place + width
        place = begin + int.from_bytes(packet[place:begin])
        found.append(packet[begin:place])
    return found


def _second_decoder(stream: VideoStream) -> list[VideoCodecContext]:
    """Makes the decoder of a stream hold its frames against checksums, and returns a stricter one, if there is any."""
    import av

    context = stream.codec_context
    context.options = {**context.options, **_CHECKSUMS.get(context.name, {})}
    # libvpx may be built without more than 8 bits.
    if context.name not in _SECOND or "p1" in (context.pix_fmt or ""):
        return []
    try:
        second = cast("VideoCodecContext", av.CodecContext.create(_SECOND[context.name], "r"))
    except av.codec.codec.UnknownCodecError:
        return []
    second.thread_count = 1
    return [second]


def has_texts(path: Path) -> bool:
    """Returns whether a video file has free texts in its container, or another track beside the pictures."""
    with _opened(path) as (container, stream):
        if len(container.streams) > 1:
            return True
        texts = [(key, value) for part in (container, stream) for key, value in part.metadata.items()]
    free = ("handler_name", "encoder")
    odd = [key for key, value in texts if key.lower() in free and not _USUAL.fullmatch(value)]
    return bool(odd) or any(key.lower() not in _TECHNICAL for key, _ in texts)


def copy_without_texts(path: Path, to: Path) -> None:
    """Copies the packets of the video track of a file into a new one, without any text; no frame is encoded again."""
    import av

    form = {
        ".m4v": "mp4",
        ".mkv": "matroska",
        ".mpg": "mpeg",
        ".mpeg": "mpeg",
        ".wmv": "asf",
        ".ts": "mpegts",
        ".m2ts": "mpegts",
    }
    name = form.get(path.suffix.lower(), path.suffix.lower()[1:])
    with _opened(path) as (container, stream), av.open(str(to), "w", format=name, container_options=_EXACT) as out:
        track = out.add_stream_from_template(stream)
        track.metadata.clear()
        for packet in container.demux(stream):
            if packet.dts is not None:
                packet.stream = track
                out.mux(packet)


def decoded_frames(path: Path, stamps: Sequence[int]) -> NDArray[np.uint8]:
    """Returns the video frames with the given stamps, RGB, (T, H, W, 3), in the given order.

    Decoding begins at the keyframe before each wanted frame, so that distant frames cost no more than neighbouring
    ones.
    """
    keyframes = timeline(path).keyframes
    wanted = sorted(set(stamps))

    def begins(stamp: int) -> int:
        return max((keyframe for keyframe in keyframes if keyframe <= stamp), default=wanted[0])

    found: dict[int, NDArray[np.uint8]] = {}
    with _opened(path) as (container, stream):
        stream.thread_type = _ONE_THREAD
        has_index = container.format.name not in _WITHOUT_INDEX
        for keyframe, group in groupby(wanted, key=begins if has_index else lambda stamp: wanted[0]):
            missing = set(group)
            if has_index:
                container.seek(keyframe, stream=stream, backward=True)
            for frame in container.decode(stream):
                # What follows a damaged frame is made of it, and not marked itself.
                if frame.is_corrupt and (frame.pts is None or frame.pts >= keyframe):
                    raise ValueError(f"{path}: {_damaged(frame.time or 0.0)}")
                if frame.pts in missing:
                    missing.remove(frame.pts)
                    found[frame.pts] = _rgb(path, frame)
                if not missing:
                    break
            if missing:
                raise ValueError(f"{path}: the video is damaged: {len(missing)} frames do not decode. Copy it again.")
    return np.stack([found[stamp] for stamp in stamps])


def _damaged(second: float) -> str:
    return f"the video is damaged at {second:.2f} s. Copy or download it again."


def _rgb(path: Path, frame: VideoFrame) -> NDArray[np.uint8]:
    if frame.is_corrupt:
        raise ValueError(f"{path}: {_damaged(frame.time or 0.0)}")
    return _upright(np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8), _matrix(frame, path))


def _matrix(frame: VideoFrame, path: Path) -> _Matrix:
    """Returns a, b, c and d: the pixel (x, y) is shown at (ax + cy, bx + dy); (1, 0, 0, 1) without a display matrix."""
    # PyAV calls it a mapping and gives the items, each with its type.
    beside = cast("Iterable[SideData]", frame.side_data)
    data = next((bytes(each) for each in beside if each.type.name == _DISPLAY_MATRIX), None)
    if data is None:
        return 1, 0, 0, 1
    a, b, _, c, d = (float(each) / 2**16 for each in np.frombuffer(data, "<i4")[:5])
    turned = (round(a), round(b), round(c), round(d))
    if turned not in _TURNS or np.abs(np.subtract((a, b, c, d), turned)).max() > _MAX_SLANT:
        raise ValueError(
            f"{path}: the display matrix ({a:.2f}, {b:.2f}, {c:.2f}, {d:.2f}) neither turns by right angles nor "
            "mirrors. Convert it: ffmpeg -i OLD -c:v libx264 NEW.mp4"
        )
    return turned


def _upright(pixels_HWC: NDArray[np.uint8], matrix: _Matrix) -> NDArray[np.uint8]:
    a, b, c, d = matrix
    if not a:
        pixels_HWC = pixels_HWC.transpose(1, 0, 2)
    return np.ascontiguousarray(pixels_HWC[:: b + d, :: a + c])


@contextmanager
def _opened(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    import av

    try:
        # Texts of a container may be of any encoding; here it only counts that there are some.
        with av.open(str(path), metadata_errors="replace") as container:
            if not container.streams.video:
                raise ValueError(f"{path}: the file holds no video stream (sound alone?). Give the video itself.")
            yield container, container.streams.video[0]
    except av.FFmpegError as error:
        raise ValueError(
            f"{path}: no video that ffmpeg reads, or a damaged one ({type(error).__name__}). Copy or download it again."
        ) from error
