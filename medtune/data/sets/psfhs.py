"""PSFHS and FH-PS-AOP: intrapartum ultrasound with masks of the pubic symphysis and the fetal head.

Layout: image_mha/<number>.mha (three equal channels of 256 x 256) and label_mha/<number>.mha (0 background, 1 pubic
symphysis, 2 fetal head). Both challenges use it.

Source: PSFHS, Zenodo 10969427; FH-PS-AOP (MICCAI 2023), Zenodo 7851339.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.images import Size
from medtune.data.masks import outer_box
from medtune.data.metaimage import read_metaimage, write_metaimage
from medtune.data.public_set import Frame, Marked, PublicSet, SetTable
from medtune.data.raw_folder import refuse_masks_alone, unexpected, visible

STRUCTURES = {1: "pubic symphysis", 2: "fetal head"}


def public_set() -> PublicSet:
    """Returns the set."""
    return PublicSet(
        title="PSFHS, pubic symphysis and fetal head",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/10969427",
        patient_unit="one image stands for one patient: the release names none, so that frames of one birth may lie in "
        "two splits (see near_duplicates)",
        is_phantom=False,
        read=_read,
        write_example=_write_example,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns all images, with the outer box of each structure that its mask holds.

    Raises:
        FileNotFoundError: A folder or a mask is missing.
        ValueError: A file does not belong there or is not as documented, or a mask has no image.
    """
    images = folder / "image_mha"
    if not images.is_dir():
        raise FileNotFoundError(f"{images}: the folder of images is missing. Copy it from the release.")
    refuse_masks_alone(images, folder / "label_mha")
    frames = []
    for path in sorted(visible(images), key=lambda path: (len(path.stem), path.stem)):
        if path.suffix != ".mha":
            raise unexpected(path, wanted="only '<number>.mha'")
        grey_HW = grey(read_metaimage(path), path)
        label = folder / "label_mha" / path.name
        marks_HW = read_metaimage(label)
        if marks_HW.shape != grey_HW.shape:
            raise ValueError(
                f"{label}: this mask is {marks_HW.shape}, its image {grey_HW.shape}. Take both from one release."
            )
        if odd := sorted({int(value) for value in np.unique(marks_HW)} - {0, *STRUCTURES}):
            raise ValueError(f"{label}: wanted the values 0, 1 and 2, got {odd[0]}.")
        written = scratch / f"{path.stem}.png"
        PIL.Image.fromarray(grey_HW).save(written)
        boxes = ((name, outer_box(marks_HW == value)) for value, name in STRUCTURES.items())
        height, width = grey_HW.shape
        marked = tuple(Marked(name, box) for name, box in boxes if box)
        frames.append(Frame(path.stem, written, path.stem, Size(width, height), boxes=marked))
    return SetTable(tuple(frames))


def grey(stored: NDArray[np.uint8], path: Path) -> NDArray[np.uint8]:
    """Returns the image of a file with one grey channel, or three equal ones, first or last.

    Raises:
        ValueError: It has another shape, or its channels differ.
    """
    if stored.ndim == 2:
        return stored
    if stored.ndim == 3 and 3 in (stored.shape[0], stored.shape[2]):
        channels = stored if stored.shape[0] == 3 else np.moveaxis(stored, 2, 0)
        if (channels == channels[0]).all():
            return np.ascontiguousarray(channels[0])
    raise ValueError(f"{path}: wanted one grey image, or three equal channels, got the shape {stored.shape}.")


def _write_example(folder: Path) -> None:
    """Writes twelve images; the head is a bright ellipse, the symphysis a small one, and both are not always there."""
    y_HW, x_HW = np.mgrid[:64, :64]
    for number in range(12):
        rng = np.random.default_rng(number)
        grey_HW = rng.integers(20, 90, (64, 64)).astype(np.uint8)
        marks_HW = np.zeros((64, 64), np.uint8)
        if number % 4 != 3:
            marks_HW[np.hypot((x_HW - 36) / 20, (y_HW - 38 - number / 4) / 16) < 1] = 2
        if number % 4 != 2:
            marks_HW[np.hypot((x_HW - 14 - number / 3) / 9, (y_HW - 12) / 5) < 1] = 1
        grey_HW[marks_HW > 0] += 90
        write_metaimage(folder / "image_mha" / f"{number + 3744:05d}.mha", np.stack([grey_HW] * 3))
        write_metaimage(folder / "label_mha" / f"{number + 3744:05d}.mha", marks_HW)
