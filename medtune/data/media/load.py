"""Loads a media item of any kind by its reference, measures it without decoding, or shows several as one picture.

Shapes: H height, W width, C channels; X to the patient's left, Y to the back, Z to the head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.media.images import image_size, load_image
from medtune.data.seeding import stable_int
from medtune.data.types import Frames, Image, Media, MediaGroup, MediaKind, MediaRef, Sampling, Size, Video, Volume

Shape = Size | Frames
"""The size of an image, or the frame size and times of a video."""
VIDEO_FRAMES = 8
"""The number of frames of a video, evenly spaced in time. The value is our own choice."""
BLANK = MediaRef(Path(__file__).with_name("blank.png"))
"""A black square without boxes; black is also the background of ultrasound images."""
BLANKS: Mapping[MediaKind, MediaRef] = {
    "image": BLANK,
    "video": MediaRef(Path(__file__).with_name("blank.mkv"), kind="video"),
    "volume": MediaRef(Path(__file__).with_name("blank.nii.gz"), kind="volume"),
}
"""The blank of each kind of media; the video has 64 frames in 8 seconds, the scan of air is 384 x 384 x 288 mm."""
NUM_FRAMES = 4

CENTER_HU, WIDTH_HU = 40.0, 400.0
"""The middle and width of the usual soft-tissue window of the abdomen, in HU."""


def load_media(ref: MediaRef, sampling: Sampling | None = None) -> Media:
    """Returns the decoded image, video or volume of a reference, red boxes drawn; of a video the sampled frames."""
    if ref.kind == "volume":
        from medtune.data.media.volumes.read import load_volume

        return load_volume(ref)
    if ref.kind == "video":
        from medtune.data.media.videos.read import read_video

        return read_video(ref, sampling)
    return load_image(ref)


def pictures_of(ref: MediaRef) -> tuple[PIL.Image.Image, ...]:
    """Returns an image with its boxes drawn, or `VIDEO_FRAMES` frames of a video, as RGB pictures.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The file cannot be decoded, or it is a volume, which is no picture.
    """
    if ref.kind == "volume":
        raise ValueError(
            f"{ref.path.name} is a volume, and a Python function is handed pictures. Give an object with a method "
            "answer(group, requests) (docs/python.md), or a model of medtune that reads volumes (`medtune eval`)"
        )
    media = load_media(ref, Sampling(VIDEO_FRAMES))
    if isinstance(media, Video):
        return tuple(map(PIL.Image.fromarray, media.frames_THWC))
    assert isinstance(media, Image)
    return (PIL.Image.fromarray(media.pixels_HWC),)


def check_media(ref: MediaRef) -> None:
    """Decodes a media item, of a film all frames one after another, and raises the error that says what is wrong."""
    if ref.kind != "video":
        load_media(ref)
        return
    from medtune.data.media.dicom import is_dicom
    from medtune.data.media.videos.container import check_frames
    from medtune.data.media.videos.read import video_frames

    # The times of a clip are checked, too, and a cine DICOM is decoded for them.
    video_frames(ref)
    if not is_dicom(ref.path):
        check_frames(ref.path)


def media_shape(ref: MediaRef, sampling: Sampling | None = None) -> Shape | None:
    """Returns the size of an image, or the frame size and times of a video, without decoding; None for a volume."""
    if ref.kind == "volume":
        return None
    if ref.kind == "image":
        return image_size(ref.path)
    from medtune.data.media.videos.read import video_frames

    return video_frames(ref, sampling)


def blank_group(group: MediaGroup) -> MediaGroup | None:
    """Returns the group with a blank of the same kind in place of each of its items; its media id is "blank".

    A group without media has nothing that could be blank, and None is returned.
    """
    if not group.media:
        return None
    return MediaGroup("blank", tuple(BLANKS[ref.kind] for ref in group.media), group.questions)


def shuffled_group(group: MediaGroup, *, seed: int) -> MediaGroup | None:
    """Returns the media group with its videos' frames in an order drawn from (seed, media id); None without videos."""
    if all(ref.kind != "video" for ref in group.media):
        return None
    drawn = stable_int(seed, "shuffled_frames", group.media_id)
    shown = (replace(ref, shuffled_by=drawn) if ref.kind == "video" else ref for ref in group.media)
    return replace(group, media=tuple(shown))


def preview(media: Sequence[MediaRef]) -> Image:
    """Returns one picture of the media items that are shown together, side by side on black.

    An item is shown as the image itself, four frames of a video or three slices of a volume. Frames and slices stand
    side by side. Slices are shown as radiologists see them: front or head up, the patient's right on the left.
    """
    if not media:
        raise ValueError("wanted at least one media item to make a picture of, got none")
    return Image(_side_by_side([_preview(ref).pixels_HWC for ref in media]))


def _preview(ref: MediaRef) -> Image:
    media = load_media(ref, Sampling(NUM_FRAMES))
    if isinstance(media, Volume):
        return Image(np.repeat(_slices(media)[:, :, None], 3, axis=2))
    if isinstance(media, Video):
        return Image(np.concatenate(list(media.frames_THWC), axis=1))
    return media


def _slices(volume: Volume) -> NDArray[np.uint8]:
    from medtune.data.media.volumes.geometry import reoriented

    patient = reoriented(volume, "LPS")
    x, y, z = (length // 2 for length in patient.hu_IJK.shape)
    x_mm, y_mm, z_mm = patient.spacing_mm
    panes = [
        _pane(patient.hu_IJK[:, :, z].T, y_mm, x_mm),
        _pane(patient.hu_IJK[:, y, ::-1].T, z_mm, x_mm),
        _pane(patient.hu_IJK[x, :, ::-1].T, z_mm, y_mm),
    ]
    return _side_by_side(panes)


def _side_by_side(panes: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    tallest = max(pane.shape[0] for pane in panes)
    rest = [(0, 0)] * (panes[0].ndim - 1)
    return np.concatenate([np.pad(pane, ((0, tallest - pane.shape[0]), *rest)) for pane in panes], axis=1)


def _pane(hu_HW: NDArray[np.generic], row_mm: float, column_mm: float) -> NDArray[np.uint8]:
    shown_HW = np.clip((hu_HW.astype(np.float32) - CENTER_HU) / WIDTH_HU + 0.5, 0, 1) * 255
    height, width = hu_HW.shape
    size = (max(1, round(width * column_mm)), max(1, round(height * row_mm)))
    return np.asarray(PIL.Image.fromarray(shown_HW.astype(np.uint8)).resize(size, PIL.Image.Resampling.BILINEAR))
