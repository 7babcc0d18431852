"""Finds for each segment of ReXSonoVQA its YouTube video, the part of the video, and the file on disk.

Source: rajpurkarlab/RexSonoVQA@c2b931f, video_metadata_new.json and video_source.py (fields, older spellings, clamping,
and the crop by ffmpeg, which cuts sides off to whole pixels and to even ones).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from medtune.data.files import json_file
from medtune.data.media.videos import container
from medtune.data.types import Box, Size

SUFFIXES = (*container.VIDEO_SUFFIXES, ".dcm")
_MARK_OF_COPIES = "_CC"


class Roi(NamedTuple):
    """The region of a video's frame that shows the ultrasound image.

    The first four values are shares of the frame's width and height if `is_share` is true, else pixels.
    """

    x: float
    y: float
    width: float
    height: float
    is_share: bool

    def box(self, size: Size) -> Box:
        """Returns the region in pixels of a frame of this size, rounded as ffmpeg's crop filter rounds it."""
        across, down = (size.width, size.height) if self.is_share else (1, 1)
        x0, y0, width, height = (
            int(side) & ~1 for side in (self.x * across, self.y * down, self.width * across, self.height * down)
        )
        box = Box(x0, y0, min(x0 + width, size.width), min(y0 + height, size.height))
        if min(x0, y0) < 0 or box.x1 <= x0 or box.y1 <= y0:
            raise ValueError(f"the region {tuple(self[:4])} is empty or not in a frame of {size.width} x {size.height}")
        return box


@dataclass(frozen=True, slots=True)
class Segment:
    url: str
    video: str  # YouTube's id of the video.
    start_s: float  # The start of the part in seconds.
    end_s: float | None  # The end of the part in seconds; None if it is the end of the video.
    roi: Roi | None  # The region that shows the ultrasound image; None for the whole frame.


def read_segments(file: Path) -> dict[str, Segment]:
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file. It comes with the questions.")
    try:
        return {name: _segment(entry) for name, entry in json_file(file, dict, "an object of segments").items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: not as released ({type(error).__name__}: {error}). Download it again.") from error


def segment_of(name: str, segments: Mapping[str, Segment]) -> Segment | None:
    """Returns the segment of a question file; None if there is none.

    The names of a segment and its question file may differ in blanks and in a "_CC" at the end.
    """
    if name in segments:
        return segments[name]
    alike = [key for key in segments if _folded_name(key) in (_folded_name(name), _folded_name(name + _MARK_OF_COPIES))]
    return segments[alike[0]] if len(alike) == 1 else None


def stored_videos(root: Path) -> dict[str, Path]:
    """Returns the video files anywhere in a folder by their names without ending, in reverse alphabetical order."""
    return {file.stem: file for file in sorted(root.rglob("*"), reverse=True) if file.suffix.lower() in SUFFIXES}


def whole_video(segment: Segment, files: Mapping[str, Path]) -> Path | None:
    """Returns the file of a segment's whole YouTube video: ID.mp4, or "TITLE [ID].mp4" as yt-dlp names it."""
    exact = files.get(segment.video)
    return exact or next((file for stem, file in files.items() if stem.endswith(f"[{segment.video}]")), None)


def _segment(entry: Mapping[str, object]) -> Segment:
    url = str(entry["youtube_url"])
    end_s = _number(entry.get("end_time", 0))
    return Segment(
        url=url,
        video=_youtube_id(url),
        start_s=_number(entry.get("start_time", entry.get("time_offset", 0))),
        end_s=end_s if end_s > 0 else None,
        roi=_roi(entry.get("roi")),
    )


def _youtube_id(url: str) -> str:
    parts = urlsplit(url)
    found = parse_qs(parts.query).get("v") or [parts.path.rstrip("/").rpartition("/")[2]]
    if not re.fullmatch(r"[\w-]+", found[0]):
        raise ValueError(f"{url} names no video")
    return found[0]


def _roi(entry: object) -> Roi | None:
    if not isinstance(entry, Mapping) or not entry:
        return None
    is_share = "x_prop" in entry
    names = ("x_prop", "y_prop", "w_prop", "h_prop") if is_share else ("x", "y", "w", "h")
    x, y, width, height = (_number(entry[name]) for name in names)
    return Roi(x, y, width, height, is_share)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"wanted a number, got {value!r}")
    return float(value)


def _folded_name(name: str) -> str:
    return re.sub(r"[\s_]+", "_", name).strip("_").casefold()
