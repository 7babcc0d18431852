"""Yields broken films: bits flipped, numbers of the container replaced, parts twice, an end cut off."""

import random
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from medtune.data.media.load import check_media
from medtune.data.media.videos.container import has_texts
from medtune.data.media.videos.read import read_video, read_whole_frames
from medtune.data.types import MediaRef
from tests.data.media.videos.synthetic_videos import counted, film
from tests.faults.harness import PLANTED, Broken
from tests.faults.picture_files import CHANGES

FILMS = {
    "film.mp4": ("libx264", "mp4"), "film.mkv": ("libx264", "matroska"), "film.avi": ("mpeg4", "avi"),
    "film.mpg": ("mpeg2video", "mpeg"), "film.ts": ("libx264", "mpegts"), "film.gif": ("gif", "gif"),
}  # fmt: skip


def film_files(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields films that are checked, and whose frames are read; those cut by more than a half are broken for sure."""
    wholes = {}
    for name, (codec, form) in FILMS.items():
        noise = np.random.default_rng(0).integers(0, 60, (12, 48, 64, 3), dtype=np.uint8)
        path = film(folder / name, counted(12) + noise, codec=codec, form=form)
        _name(path)
        wholes[path.suffix] = path.read_bytes()
    while True:
        change, suffix = draw.choice(list(CHANGES)), draw.choice(list(wholes))
        content, is_certain = CHANGES[change](draw, wholes[suffix])
        # What is cut between two frames of a container without an index is a shorter film.
        is_certain = is_certain and (suffix == ".mp4" or len(content) < 100)
        path = folder / f"film_{draw.getrandbits(32):08x}{suffix}"
        path.write_bytes(content)
        ref = MediaRef(path, kind="video")

        def check(ref: MediaRef = ref) -> None:
            check_media(ref)
            has_texts(ref.path)

        def read(ref: MediaRef = ref) -> None:
            read_whole_frames(ref.path, at_most=4)
            read_video(ref)

        yield Broken(f"{change} in {path.name}", check, path, is_certain)
        yield Broken(f"the frames, {change} in {path.name}", read, path)


def _name(path: Path) -> None:
    """Writes a name into the container, where it holds texts."""
    if path.suffix not in (".mp4", ".mkv"):
        return
    whole = path.with_name(f"unnamed{path.suffix}")
    path.rename(whole)
    with av.open(str(whole)) as container, av.open(str(path), "w") as out:
        out.metadata["title"] = out.metadata["comment"] = PLANTED
        stream = container.streams.video[0]
        track = out.add_stream_from_template(stream)
        for packet in container.demux(stream):
            if packet.dts is not None:
                packet.stream = track
                out.mux(packet)
