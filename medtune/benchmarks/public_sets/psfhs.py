"""PSFHS and FH-PS-AOP: intrapartum ultrasound with masks of the pubic symphysis and the fetal head.

Layout: image_mha/<number>.mha (three equal channels of 256 x 256) and label_mha/<number>.mha (0 background, 1 pubic
symphysis, 2 fetal head). Both challenges use this layout, and neither states which images are of the same birth.

Source: PSFHS, Zenodo 10969427; FH-PS-AOP (MICCAI 2023), Zenodo 7851339.
"""

from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.benchmarks.public_sets import Frame, Marked, PublicSet, SetTable
from medtune.data.media.masks import outer_box
from medtune.data.media.metaimage import read_metaimage
from medtune.data.raw.folder import masks_without_image, unexpected_file, visible_entries
from medtune.data.raw.source import Place, read_rows
from medtune.data.types import Size

IMAGES, LABELS = "image_mha", "label_mha"
STRUCTURES = {1: "pubic symphysis", 2: "fetal head"}


def public_set() -> PublicSet:
    return PublicSet(
        title="PSFHS, pubic symphysis and fetal head",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/10969427",
        patient_unit="none: the release does not tell which images are of one birth, so that all are test",
        stands_for_patient="image",
        is_phantom=False,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns all images, each with the smallest box around each structure in its mask.

    An image whose mask is missing, or that does not have the documented format, is rejected without affecting other
    images.
    """
    images, labels = folder / IMAGES, folder / LABELS
    if not images.is_dir():
        raise FileNotFoundError(f"{images}: the folder of images is missing. Copy it from the release.")
    numbered = [(path, Place(IMAGES, number)) for number, path in enumerate(visible_entries(images), start=1)]
    numbered.sort(key=lambda each: (len(each[0].stem), each[0].stem))
    frames, rejects = read_rows(numbered, lambda each: _frame(each[0], labels / each[0].name, each[1], scratch))
    return SetTable(tuple(frames), rejects=(*rejects, *masks_without_image(images, labels, file=LABELS)))


def _frame(path: Path, label: Path, place: Place, scratch: Path) -> Frame:
    if path.suffix != ".mha":
        raise unexpected_file(path, place, wanted="only '<number>.mha'")
    with place.reject_broken(path):
        grey_HW = grey(read_metaimage(path), path)
    with place.reject_broken(label):
        marks_HW = read_metaimage(label)
    if marks_HW.shape != grey_HW.shape:
        said = f"this mask is {marks_HW.shape}, its image {grey_HW.shape}. Take both from one release."
        raise place.error(said, media=label)
    if odd := sorted({int(value) for value in np.unique(marks_HW)} - {0, *STRUCTURES}):
        raise place.error(f"wanted a mask with the values 0, 1 and 2, got {odd[0]}.", media=label)
    written = scratch / f"{path.stem}.png"
    PIL.Image.fromarray(grey_HW).save(written)
    boxes = ((name, outer_box(marks_HW == value)) for value, name in STRUCTURES.items())
    height, width = grey_HW.shape
    marked = tuple(Marked(name, box) for name, box in boxes if box)
    return Frame(path.stem, written, None, Size(width, height), boxes=marked)


def grey(stored: NDArray[np.uint8], path: Path) -> NDArray[np.uint8]:
    """Returns the grey image (H, W) of an array with one channel, or three equal ones in its first or last axis."""
    if stored.ndim == 2:
        return stored
    if stored.ndim == 3 and 3 in (stored.shape[0], stored.shape[2]):
        channels = stored if stored.shape[0] == 3 else np.moveaxis(stored, 2, 0)
        if (channels == channels[0]).all():
            return np.ascontiguousarray(channels[0])
    raise ValueError(f"{path}: wanted one grey image, or three equal channels, got the shape {stored.shape}.")
