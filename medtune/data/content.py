"""Ids made from content: two users with the same files get the same ids, and no file name survives."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.images import Size, check_box, decode_image
from medtune.data.lookalikes import perceptual_hash
from medtune.data.types import MediaRef, Question

ID_HEX = 16
# Level 1 writes several times faster than the default and ultrasound grows by about a tenth.
_PNG_LEVEL = 1


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in a prepared folder.

    Attributes:
        digest: SHA-256 of shape and pixels, hex; the file is `<digest>.png`.
        look: Perceptual hash, 64 bits.
    """

    digest: str
    size: Size
    look: int

    @property
    def file(self) -> str:
        """The file's name in the media folder."""
        return f"{self.digest}.png"


def pixel_digest(pixels_HWC: NDArray[np.uint8]) -> str:
    """Returns the SHA-256 of an image's shape and pixels, hex: the same whatever format they were stored in."""
    height, width, channels = pixels_HWC.shape
    digest = hashlib.sha256(f"{height}x{width}x{channels}:".encode())
    digest.update(np.ascontiguousarray(pixels_HWC).data)
    return digest.hexdigest()


def store_images(media: Mapping[str, MediaRef], folder: Path) -> dict[Path, StoredImage]:
    """Decodes each file once, writes it to `folder` as PNG without boxes, and returns what was stored.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file cannot be decoded, or a box leaves its image.
    """
    stored: dict[Path, StoredImage] = {}
    written: set[str] = set()
    for ref in media.values():
        if ref.path not in stored:
            pixels_HWC = decode_image(ref.path).pixels_HWC
            height, width = pixels_HWC.shape[:2]
            image = StoredImage(pixel_digest(pixels_HWC), Size(width, height), perceptual_hash(pixels_HWC))
            if image.digest not in written:
                PIL.Image.fromarray(pixels_HWC).save(folder / image.file, compress_level=_PNG_LEVEL)
                written.add(image.digest)
            stored[ref.path] = image
        for box in ref.boxes:
            try:
                check_box(box, stored[ref.path].size)
            except ValueError as error:
                raise ValueError(f"{ref.path}: {error}") from error
    return stored


def media_ids(media: Mapping[str, MediaRef], stored: Mapping[Path, StoredImage]) -> dict[str, str]:
    """Returns the content id of each of the source's media ids.

    It is the first 16 hex digits of SHA-256 over pixels and boxes; media with one content (a file that the release
    holds twice) get "-copy2", "-copy3", ... in the source's order.
    """
    seen: Counter[str] = Counter()
    ids = {}
    for media_id, ref in media.items():
        content = json.dumps([stored[ref.path].digest, [list(box) for box in ref.boxes]])
        ids[media_id] = _numbered(hashlib.sha256(content.encode()).hexdigest()[:ID_HEX], seen, "-copy")
    return ids


def with_content_ids(questions: Sequence[Question], ids: Mapping[str, str]) -> list[Question]:
    """Returns the questions with `<task>-<media id>` as id; a second one of a task on a media item gets "-2"."""
    seen: Counter[str] = Counter()
    renamed = []
    for question in questions:
        media_id = ids[question.media_id]
        question_id = _numbered(f"{question.facets.get('task', 'question')}-{media_id}", seen, "-")
        renamed.append(replace(question, id=question_id, media_id=media_id))
    return renamed


def _numbered(name: str, seen: Counter[str], mark: str) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}{mark}{seen[name]}"
