"""Copies media files into a prepared folder, each once, under a name made from its content.

An image is decoded and saved as PNG. A video is checked by its packets and by all of its frames, and linked; a cine
DICOM and an animated GIF are decoded and saved without loss. A NIfTI volume is decoded as a check and linked, because a
copy of ten thousand scans would fill the disk. Where a video or a NIfTI file holds free text, a copy without it is
made: frames and voxels are the same. A DICOM series is decoded and saved on its own grid, so that no header survives.
An array without units becomes NIfTI in Hounsfield units. A saved encoding of a volume is read as a check and linked.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EMLINK, EPERM, EXDEV
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.files import file_digest, unique_mark
from medtune.data.grouping import grouped
from medtune.data.media.dicom import decode_cine, is_dicom
from medtune.data.media.images import check_box, decode_image
from medtune.data.media.stored_media import pixel_digest
from medtune.data.media.videos.container import GIF_SUFFIX, VIDEO_SUFFIXES, check_frames, copy_without_texts, has_texts
from medtune.data.media.videos.read import STORED_SUFFIX as STORED_VIDEO
from medtune.data.media.videos.read import Extent, check_clip, read_whole_frames, video_extent, write_video
from medtune.data.media.volumes.formats.ctvit_encoding import ENCODING_SUFFIX as ENCODING
from medtune.data.media.volumes.formats.ctvit_encoding import read_encoding
from medtune.data.media.volumes.formats.nifti import check_nifti, without_texts, write_nifti
from medtune.data.media.volumes.formats.scaled_array import ARRAY_SUFFIX as ARRAY
from medtune.data.media.volumes.formats.stored_volume import STORED_SUFFIX, write_volume
from medtune.data.media.volumes.geometry import affine_of
from medtune.data.media.volumes.read import read_volume
from medtune.data.prepared.decoded_content import Content, decoded_content
from medtune.data.prepared.perceptual_hash import perceptual_hash
from medtune.data.raw.source import Broken, MediaDraw
from medtune.data.types import MediaKind, MediaRef, Size

Stored = Literal["image", "video", "volume", "mask", "encoding"]
"""What a file is stored as."""
# Level 1 writes several times faster than the default and ultrasound grows by about a tenth.
_PNG_LEVEL = 1
IMAGE_SUFFIX = ".png"


@dataclass(frozen=True, slots=True)
class CopiedFile:
    digest: str  # The SHA-256 of its content, hex; for an image that of its shape and pixels.
    file: str
    size: Size | None = None  # The width and height of an image or of a video's frames.
    look: int | None = None  # The perceptual hash of an image, 64 bits; None for other media, and for a flat image.
    extent: Extent | None = None  # The frame size, frame times and duration of a video.
    content: Content | None = None  # What a video or volume shows once it is decoded; None for other files.


CopyFile = Callable[[Path, Path], CopiedFile]
"""A function of (path, media folder) that copies one file and describes the copy."""


class CopiedMedia(NamedTuple):
    """The media files that were copied into a prepared folder, and those that could not be."""

    files: dict[Path, CopiedFile]  # The copied files by the source's paths, masks and encodings included.
    # For each media id whose files could not be copied, the first item that could not be and why.
    broken: dict[str, Broken]


class CopyUnit(NamedTuple):
    """Files that one process copies together: one file, or all those that one call of a simulation draws."""

    # The paths and what is stored: an image, a video, a volume, a mask or an encoding.
    files: tuple[tuple[Path, Stored], ...]
    draw: MediaDraw | None = None  # Draws the files; None for files that are there.
    frames_per_s: float | None = None  # Those of a cine that does not say its own.


Work = Callable[[Sequence[CopyUnit]], Sequence[Sequence[CopiedFile | str]]]
"""Copies units, in processes or not, and returns for each file its copy or the reason why there is none."""


def units_of(media: Mapping[str, tuple[MediaRef, ...]], draws: Mapping[Path, MediaDraw]) -> list[CopyUnit]:
    """Returns the units of work that a source's media are, in its order; each file is in one of them."""
    stored: dict[Path, Stored] = {}
    rates: dict[Path, float | None] = {}
    for items in media.values():
        for ref in items:
            rates.setdefault(ref.path, ref.frames_per_s)
            for path, what in _files(ref):
                stored.setdefault(path, what)
    drawn = grouped(stored.items(), lambda each: draws[each[0]].folder if each[0] in draws else each[0])
    return [CopyUnit(tuple(files), draws.get(files[0][0]), rates.get(files[0][0])) for files in drawn.values()]


def copy_unit(unit: CopyUnit, folder: Path) -> list[CopiedFile | str]:
    """Copies the files of a unit and returns each copy, or the reason why the file could not be read.

    This is the work that several processes share.
    """
    if unit.draw is None:
        return [_copied(path, what, folder, unit.frames_per_s) for path, what in unit.files]
    # A process that died may have left a part of them.
    shutil.rmtree(unit.draw.folder, ignore_errors=True)
    unit.draw.make()
    copied = [_copied(path, what, folder) for path, what in unit.files]
    shutil.rmtree(unit.draw.folder)
    return copied


def _copied(path: Path, what: Stored, folder: Path, frames_per_s: float | None = None) -> CopiedFile | str:
    try:
        copy = _store_video(path, folder, frames_per_s) if what == "video" else STORE[what](path, folder)
        return _decoded(copy, what, path, folder) if what in ("video", "volume") else copy
    except ValueError as error:
        return str(error).removeprefix(f"{path}: ")


def copy_media(
    media: Mapping[str, tuple[MediaRef, ...]],
    folder: Path,
    *,
    draws: Mapping[Path, MediaDraw] = MappingProxyType({}),
    work: Work | None = None,
) -> CopiedMedia:
    """Copies media files into a prepared folder; items with broken files or boxes outside of them are reported."""
    units = units_of(media, draws)
    done = [copy_unit(unit, folder) for unit in units] if work is None else work(units)
    found = {
        path: outcome
        for unit, outcomes in zip(units, done, strict=True)
        for (path, _), outcome in zip(unit.files, outcomes, strict=True)
    }
    stored = {path: outcome for path, outcome in found.items() if isinstance(outcome, CopiedFile)}
    broken: dict[str, Broken] = {}
    for media_id, ref in ((media_id, ref) for media_id, items in media.items() for ref in items):
        reasons = [reason for path, _ in _files(ref) if isinstance(reason := found[path], str)]
        wrong = reasons[0] if reasons else _wrong_part(ref, stored[ref.path])
        if wrong:
            broken.setdefault(media_id, Broken(ref.path, wrong))
    return CopiedMedia(stored, broken)


def _files(ref: MediaRef) -> Iterator[tuple[Path, Stored]]:
    yield ref.path, ref.kind
    for _, mask in ref.masks:
        yield mask, "mask"
    if ref.encoding is not None:
        yield ref.encoding, "encoding"


def _decoded(copy: CopiedFile, kind: MediaKind, path: Path, folder: Path) -> CopiedFile:
    file = folder / copy.file
    try:
        return replace(copy, content=decoded_content(kind, file))
    except ValueError as error:
        raise ValueError(str(error).replace(str(file), str(path))) from error


def _wrong_part(ref: MediaRef, file: CopiedFile) -> str | None:
    try:
        if file.extent is not None:
            check_clip(ref, file.extent)
            return None
        for box in (*ref.boxes, *((ref.region,) if ref.region else ())):
            if file.size is None:
                return f"boxes cannot be drawn on a {ref.kind}"
            check_box(box, file.size)
    except ValueError as error:
        return str(error)
    return None


def _store_image(path: Path, folder: Path) -> CopiedFile:
    pixels_HWC = decode_image(path).pixels_HWC
    height, width = pixels_HWC.shape[:2]
    digest = pixel_digest(pixels_HWC)
    file = folder / f"{digest}{IMAGE_SUFFIX}"
    if not file.exists():
        draft = _draft(folder, IMAGE_SUFFIX)
        # One channel of three equal ones takes two thirds of the bytes and of the time, and is decoded to the same.
        is_grey = bool((pixels_HWC == pixels_HWC[:, :, :1]).all())
        PIL.Image.fromarray(pixels_HWC[:, :, 0] if is_grey else pixels_HWC).save(draft, compress_level=_PNG_LEVEL)
        _keep(draft, file)
    return CopiedFile(digest, file.name, Size(width, height), perceptual_hash(pixels_HWC))


def _store_video(path: Path, folder: Path, frames_per_s: float | None = None) -> CopiedFile:
    extent = video_extent(path, frames_per_s)
    if path.name.lower().endswith(GIF_SUFFIX):
        check_frames(path)
        frames_THWC = read_whole_frames(path, at_most=len(extent.times_s)).frames_THWC
        return _written_video(frames_THWC, extent, folder)
    if not is_dicom(path):
        suffix = path.suffix.lower()
        if suffix not in VIDEO_SUFFIXES:
            raise ValueError(f"{path}: wanted a name that ends with one of {', '.join(VIDEO_SUFFIXES)}")
        check_frames(path)
        if not has_texts(path):
            return replace(link_file(path, folder, suffix), size=extent.size, extent=extent)
        draft = _draft(folder, suffix)
        try:
            copy_without_texts(path, draft)
            if decoded_content("video", draft) != decoded_content("video", path):
                raise ValueError("other frames")
        except (ValueError, OSError) as error:
            draft.unlink(missing_ok=True)
            raise ValueError(
                f"{path}: its texts and its sound, which may name a person, cannot be taken out without changing the "
                "frames. Convert it: ffmpeg -i OLD -map_metadata -1 -an -c:v libx264 NEW.mp4"
            ) from error
        return replace(_kept(draft, folder, suffix), size=extent.size, extent=extent)
    return _written_video(decode_cine(path, frames_per_s).frames_THWC, extent, folder)


def _written_video(frames_THWC: NDArray[np.uint8], extent: Extent, folder: Path) -> CopiedFile:
    """Saves frames without loss; what their file said beside them, in comments or a header, stays behind."""
    draft = _draft(folder, STORED_VIDEO)
    write_video(draft, frames_THWC, extent.times_s, extent.duration_s)
    return replace(_kept(draft, folder, STORED_VIDEO), size=extent.size, extent=extent)


def _store_volume(path: Path, folder: Path) -> CopiedFile:
    if path.is_dir():
        draft = _draft(folder, STORED_SUFFIX)
        write_volume(draft, read_volume(path))
        return _kept(draft, folder, STORED_SUFFIX)
    if path.name.endswith(ARRAY):
        volume, draft = read_volume(path), _draft(folder, ".nii.gz")
        write_nifti(draft, volume.hu_IJK, affine_of(volume))
        return _kept(draft, folder, ".nii.gz")
    check_nifti(path)
    suffix = ".nii.gz" if path.name.endswith(".gz") else ".nii"
    if (cleaned := without_texts(path)) is not None:
        draft = _draft(folder, suffix)
        draft.write_bytes(cleaned)
        return _kept(draft, folder, suffix)
    return link_file(path, folder, suffix)


def _store_encoding(path: Path, folder: Path) -> CopiedFile:
    try:
        read_encoding(path)
    except ValueError as error:
        # The message is shown beside the name of the scan, so that it has to say which of its files is broken.
        raise ValueError(f"{path}: its encoding: {str(error).removeprefix(f'{path}: ')}") from error
    return link_file(path, folder, ENCODING)


def link_file(path: Path, folder: Path, suffix: str) -> CopiedFile:
    """Puts a file into the media folder unchanged: linked where the disk allows it, else copied."""
    digest = file_digest(path)
    here = folder / f"{digest}{suffix}"
    if not here.exists():
        try:
            # The file itself: a link to a link would carry the source's own name.
            os.link(path.resolve(), here)
        except FileExistsError:
            # Another process has linked a file of the same content.
            pass
        except OSError as error:
            if error.errno not in (EXDEV, EPERM, EMLINK):
                raise
            draft = _draft(folder, suffix)
            shutil.copyfile(path, draft)
            _keep(draft, here)
    return CopiedFile(digest, here.name)


def unlink_media(folder: Path) -> None:
    """Replaces each file of a media folder that is linked to the user's own file by a copy of it."""
    for file in sorted(folder.iterdir()):
        if file.stat().st_nlink > 1:
            draft = _draft(folder, file.suffix)
            shutil.copyfile(file, draft)
            _keep(draft, file)


def _draft(folder: Path, suffix: str) -> Path:
    return folder / f".{unique_mark()}{suffix}"


def _kept(draft: Path, folder: Path, suffix: str) -> CopiedFile:
    digest = file_digest(draft)
    _keep(draft, folder / f"{digest}{suffix}")
    return CopiedFile(digest, f"{digest}{suffix}")


def _keep(draft: Path, file: Path) -> None:
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(file)


STORE: Mapping[Stored, CopyFile] = {
    "image": _store_image,
    "video": _store_video,
    "volume": _store_volume,
    "mask": _store_volume,
    "encoding": _store_encoding,
}
"""The function that copies a file of each kind."""
