"""Copies media files into a prepared folder, each once, under a name made from its content.

An image is decoded and saved as PNG. A video is checked by its packets and linked; a cine DICOM is decoded and saved
without loss. A NIfTI volume is checked by its header and linked, because a copy of ten thousand scans would fill the
disk. A DICOM series is decoded and saved on its own grid, so that no header survives. An array without units becomes
NIfTI in Hounsfield units. A saved encoding of a volume is read as a check and linked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from errno import EMLINK, EPERM, EXDEV
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.media.dicom import decode_cine, is_dicom
from medtune.data.media.images import Size, check_box, decode_image
from medtune.data.media.videos.container import VIDEO_SUFFIXES
from medtune.data.media.videos.read import Extent, check_clip, video_extent
from medtune.data.media.videos.write import STORED_SUFFIX as STORED_VIDEO
from medtune.data.media.videos.write import write_video
from medtune.data.media.volumes.formats.nifti import check_nifti, write_nifti
from medtune.data.media.volumes.formats.saved_encoding import ENCODING_SUFFIX as ENCODING
from medtune.data.media.volumes.formats.saved_encoding import read_encoding
from medtune.data.media.volumes.formats.scaled_array import ARRAY_SUFFIX as ARRAY
from medtune.data.media.volumes.formats.stored_volume import STORED_SUFFIX, write_volume
from medtune.data.media.volumes.geometry import affine_of
from medtune.data.media.volumes.read import read_volume
from medtune.data.prepared.lookalikes.perceptual_hash import perceptual_hash
from medtune.data.types import MediaKind, MediaRef

_MASK_KIND: MediaKind = "volume"
# Level 1 writes several times faster than the default and ultrasound grows by about a tenth.
_PNG_LEVEL = 1


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file in the media folder of a prepared folder.

    Attributes:
        digest: The SHA-256 of its content, hex; for an image that of its shape and pixels.
        file: Its name in the media folder.
        size: The width and height of an image or of a video's frames.
        look: The perceptual hash of an image, 64 bits; None for other media, and for a flat image.
        extent: The frame size, frame times and duration of a video.
    """

    digest: str
    file: str
    size: Size | None = None
    look: int | None = None
    extent: Extent | None = None


CopyFile = Callable[[Path, Path], CopiedFile]
"""A function of (path, media folder) that copies one file and describes the copy."""


class Broken(NamedTuple):
    """The media item that could not be copied, and why."""

    path: Path
    reason: str


class CopiedMedia(NamedTuple):
    """The media files that were copied into a prepared folder, and those that could not be.

    Attributes:
        files: The copied files by the source's paths, masks and encodings included.
        broken: For each media id whose files could not be copied, the first item that could not be and why.
    """

    files: dict[Path, CopiedFile]
    broken: dict[str, Broken]


def copy_media(media: Mapping[str, tuple[MediaRef, ...]], folder: Path) -> CopiedMedia:
    """Copies media files into a prepared folder; items with broken files, or with boxes outside of them, are reported.

    Raises:
        FileNotFoundError: A file is missing.
    """
    stored, unreadable, broken = dict[Path, CopiedFile](), dict[Path, str](), dict[str, Broken]()
    for media_id, ref in ((media_id, ref) for media_id, items in media.items() for ref in items):
        files = dict(_files(ref))
        for path, store in files.items():
            if path not in stored and path not in unreadable:
                try:
                    stored[path] = store(path, folder)
                except ValueError as error:
                    unreadable[path] = str(error).removeprefix(f"{path}: ")
        reasons = [unreadable[path] for path in files if path in unreadable]
        wrong = reasons[0] if reasons else _wrong_part(ref, stored[ref.path])
        if wrong:
            broken.setdefault(media_id, Broken(ref.path, wrong))
    return CopiedMedia(stored, broken)


def _files(ref: MediaRef) -> Iterator[tuple[Path, CopyFile]]:
    yield ref.path, STORE[ref.kind]
    for _, mask in ref.masks:
        yield mask, STORE[_MASK_KIND]
    if ref.encoding is not None:
        yield ref.encoding, _store_encoding


def _wrong_part(ref: MediaRef, file: CopiedFile) -> str | None:
    """Returns why the boxes, the region or the clip do not lie inside of their file; None where they do."""
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
    file = folder / f"{digest}.png"
    if not file.exists():
        PIL.Image.fromarray(pixels_HWC).save(file, compress_level=_PNG_LEVEL)
    return CopiedFile(digest, file.name, Size(width, height), perceptual_hash(pixels_HWC))


def _store_video(path: Path, folder: Path) -> CopiedFile:
    extent = video_extent(path)
    if not is_dicom(path):
        suffix = path.suffix.lower()
        if suffix not in VIDEO_SUFFIXES:
            raise ValueError(f"{path}: wanted a name that ends with one of {', '.join(VIDEO_SUFFIXES)}")
        return replace(link_file(path, folder, suffix), size=extent.size, extent=extent)
    draft = folder / f"new{STORED_VIDEO}"
    cine = decode_cine(path)
    write_video(draft, cine.frames_THWC, cine.times_s, cine.duration_s)
    digest = file_digest(draft)
    draft.replace(folder / f"{digest}{STORED_VIDEO}")
    return CopiedFile(digest, f"{digest}{STORED_VIDEO}", extent.size, extent=extent)


def _store_volume(path: Path, folder: Path) -> CopiedFile:
    if path.is_dir():
        draft = folder / f"new{STORED_SUFFIX}"
        write_volume(draft, read_volume(path))
        digest = file_digest(draft)
        draft.replace(folder / f"{digest}{STORED_SUFFIX}")
        return CopiedFile(digest, f"{digest}{STORED_SUFFIX}")
    if path.name.endswith(ARRAY):
        volume, draft = read_volume(path), folder / "new.nii.gz"
        write_nifti(draft, volume.hu_IJK, affine_of(volume))
        digest = file_digest(draft)
        draft.replace(folder / f"{digest}.nii.gz")
        return CopiedFile(digest, f"{digest}.nii.gz")
    check_nifti(path)
    suffix = ".nii.gz" if path.name.endswith(".gz") else ".nii"
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
        except OSError as error:
            if error.errno not in (EXDEV, EPERM, EMLINK):
                raise
            shutil.copyfile(path, here)
    return CopiedFile(digest, here.name)


def pixel_digest(pixels_HWC: NDArray[np.uint8]) -> str:
    """Returns the SHA-256 of an image's shape and pixels, hex, which names its copy in a prepared folder."""
    height, width, channels = pixels_HWC.shape
    digest = hashlib.sha256(f"{height}x{width}x{channels}:".encode())
    digest.update(np.ascontiguousarray(pixels_HWC).data)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a media file's bytes, hex, which names its copy in a prepared folder."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


STORE: Mapping[MediaKind, CopyFile] = {
    "image": _store_image,
    "video": _store_video,
    "volume": _store_volume,
}
"""The function that copies a file of each kind of media."""
