"""Makes one picture of the media items that are shown together, for reports, dashboards and simple probes.

Shapes: H height, W width, C channels; X to the patient's left, Y to the back, Z to the head.
"""

from collections.abc import Sequence

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.media.load import load_media
from medtune.data.media.videos.read import Sampling
from medtune.data.media.volumes.geometry import reoriented
from medtune.data.types import Image, MediaRef, Video, Volume

CENTER_HU, WIDTH_HU = 40.0, 400.0
"""The middle and width of the usual soft-tissue window of the abdomen, in HU."""
NUM_FRAMES = 4


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
