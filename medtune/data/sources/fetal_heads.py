"""HC18: fetal heads in clinical ultrasound, asked about place and a red box.

Layouts: images/<id>.jpg with masks/<id>.jpg, or the official <id>_HC.png with <id>_HC_Annotation.png, in
training_set/ or directly. Masks are outlines of the head's ellipse.

Source: van den Heuvel et al., Automated measurement of fetal head circumference, PLoS ONE 13 (2018); Zenodo 1327317.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image

from medtune.data.choices import choice_question
from medtune.data.images import Size, decode_image, image_size
from medtune.data.masks import (
    NINE_CELLS,
    NOT_VISIBLE,
    Mask,
    box_size,
    fill_outline,
    nine_cell,
    outer_box,
    read_mask,
)
from medtune.data.raw_folder import clutter_note, raw_folder, unexpected, visible
from medtune.data.seeding import stable_int
from medtune.data.source import Source, SourceTable
from medtune.data.types import Box, MediaRef, Question

WHOLE = "whole fetal head"
PART = "part of the fetal head"
OUTSIDE = "tissue outside the fetal head"
MARKED = (WHOLE, PART, OUTSIDE)
# A part's sides are this share of the head's box, so that it fits in the ellipse, and beside it.
_PART_SHARE = 0.4
_BLACK_BELOW = 10
_TISSUE_SHARE = 0.5
_OFFICIAL = re.compile(r"(?P<patient>\d+)_\d*HC(?P<mask>_Annotation)?\.png")
_PLAIN = re.compile(r"(?P<patient>\d+)\.(jpg|jpeg|png)")


class _Pair(NamedTuple):
    """An image, its outline, and the number before the first underscore, which HC18 gives a pregnancy."""

    image: Path
    mask: Path
    patient: str


class _Files(NamedTuple):
    pairs: list[_Pair]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    size: Size
    mask_HW: Mask
    box: Box


def source() -> Source:
    """Returns the source."""
    return Source(
        title="HC18, fetal heads",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/1327317",
        provenance="reconstruction",
        patient_unit="the number that opens a file's name (806 in the official training set); HC18 names no patients",
        read=_read,
        write_example=_write_example,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns two tasks.

    - head_localisation: the cell in which the centre of the head's box lies; "not visible" is offered, never true.
    - red_box_grounding: one of three boxes by seed: the outer box of the whole head; a box that lies in the head
      as a whole; a box of that same size which does not touch the head and of which at least half is not black.
      So size tells the whole from the rest, and part from outside must be seen.
    """
    folder = raw_folder(root, holds="HC18's images and masks")
    files = _files(folder)
    if not files.pairs:
        raise ValueError(f"{folder}: wanted HC18's images (training_set/000_HC.png or images/<id>.jpg), found none.")
    questions: list[Question] = []
    media: dict[str, MediaRef] = {}
    num_without = 0
    for pair in files.pairs:
        head = _head(pair)
        marked = MARKED[stable_int(seed, "marked", head.name) % len(MARKED)]
        box = head.box if marked == WHOLE else _small_box(head, pair, marked, seed)
        media[head.name] = MediaRef(pair.image)
        questions.append(_localisation(head, pair, seed))
        if box is None:
            num_without += 1
            continue
        media[f"{head.name} boxed"] = MediaRef(pair.image, (box,))
        questions.append(_grounding(head, pair, seed, box=box, marked=marked))
    notes = files.notes
    if num_without:
        notes = (*notes, f"images without red_box_grounding, as no box of the wanted kind fits: {num_without}")
    return SourceTable(tuple(questions), media, notes)


def _localisation(head: _Head, pair: _Pair, seed: int) -> Question:
    return choice_question(
        f"{head.name} head_localisation",
        media_id=head.name,
        text="Where in this ultrasound image is the fetal head?",
        answer=nine_cell(head.box, *head.size),
        labels=(*NINE_CELLS, NOT_VISIBLE),
        patient_id=pair.patient,
        facets={"task": "head_localisation", "phantom": "no", "box_size": box_size(head.box, *head.size)},
        seed=seed,
    )


def _grounding(head: _Head, pair: _Pair, seed: int, *, box: Box, marked: str) -> Question:
    return choice_question(
        f"{head.name} red_box_grounding",
        media_id=f"{head.name} boxed",
        text="What does the red box in this ultrasound image mark?",
        answer=marked,
        labels=MARKED,
        patient_id=pair.patient,
        facets={"task": "red_box_grounding", "phantom": "no", "box_size": box_size(box, *head.size)},
        seed=seed,
    )


def _head(pair: _Pair) -> _Head:
    size = image_size(pair.image)
    outline_HW = read_mask([pair.mask], size, image=pair.image)
    try:
        mask_HW = fill_outline(outline_HW)
    except ValueError as error:
        raise ValueError(f"{pair.mask}: {error}") from error
    box = outer_box(mask_HW)
    if box is None:
        raise ValueError(f"{pair.mask}: the mask is empty. Take it from the release again.")
    return _Head(pair.image.stem, size, mask_HW, box)


def _small_box(head: _Head, pair: _Pair, marked: str, seed: int) -> Box | None:
    """Returns a box in the head or outside it, by seed among all that fit on a grid; None if none fits."""
    width = max(1, round((head.box.x1 - head.box.x0) * _PART_SHARE))
    height = max(1, round((head.box.y1 - head.box.y0) * _PART_SHARE))
    fits = partial(_fits, width=width, height=height)
    if marked == PART:
        allowed_HW = fits(head.mask_HW, share=1.0)
    else:
        tissue_HW = decode_image(pair.image).pixels_HWC.max(axis=2) >= _BLACK_BELOW
        allowed_HW = fits(~head.mask_HW, share=1.0) & fits(tissue_HW, share=_TISSUE_SHARE)
    step = max(1, min(width, height) // 8)
    corners = np.argwhere(allowed_HW[::step, ::step]) * step
    if not len(corners):
        return None
    y0, x0 = map(int, corners[stable_int(seed, "place", head.name) % len(corners)])
    return Box(x0, y0, x0 + width, y0 + height)


def _fits(wanted_HW: Mask, *, width: int, height: int, share: float) -> Mask:
    """Returns for each upper left corner whether at least `share` of the box there is wanted."""
    sums_HW = np.pad(wanted_HW.astype(np.int64).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    inside_HW = (
        sums_HW[height:, width:] - sums_HW[:-height, width:] - sums_HW[height:, :-width] + sums_HW[:-height, :-width]
    )
    return np.asarray(inside_HW >= share * width * height)


def _files(folder: Path) -> _Files:
    if (folder / "images").is_dir():
        images, masks = folder / "images", folder / "masks"
        if not masks.is_dir():
            raise FileNotFoundError(f"{masks}: the folder of the outlines is missing. Put it beside 'images'.")
        return _Files(list(_plain(images, masks)), clutter_note([folder, images, masks]))
    notes = clutter_note([folder])
    for name in ("test_set", "test_set.zip"):
        if (folder / name).exists():
            notes = (*notes, "skipped the test set: HC18 publishes no outlines for it")
    training = folder / "training_set"
    if not training.is_dir():
        return _official(folder, notes)
    return _official(training, (*notes, *clutter_note([training])))


def _plain(images: Path, masks: Path) -> Iterator[_Pair]:
    outlines = {path.stem: path for path in visible(masks)}
    for path in visible(images):
        match = _PLAIN.fullmatch(path.name)
        if match is None:
            raise unexpected(path, wanted="only '<number>.jpg' or '<number>.png'")
        mask = outlines.pop(path.stem, None)
        if mask is None:
            raise FileNotFoundError(f"{path}: its mask in {masks} is missing. Copy it from the release.")
        yield _Pair(path, mask, match["patient"])
    for path in outlines.values():
        raise ValueError(f"{path}: this mask has no image in {images}. Copy the image, or remove the mask.")


def _official(folder: Path, notes: tuple[str, ...]) -> _Files:
    pairs = []
    num_tables = 0
    files = [path for path in visible(folder) if path.name not in ("test_set", "test_set.zip", "training_set.zip")]
    for path in files:
        if path.suffix == ".csv":
            num_tables += 1
            continue
        match = _OFFICIAL.fullmatch(path.name)
        if match is None:
            raise unexpected(path, wanted="only '000_HC.png', '000_HC_Annotation.png', '000_2HC.png', ...")
        mask = path.with_name(f"{path.stem}_Annotation.png")
        if match["mask"]:
            if not path.with_name(path.name.replace("_Annotation", "")).is_file():
                raise ValueError(f"{path}: this outline has no image. Copy the image, or remove the outline.")
        elif not mask.is_file():
            raise FileNotFoundError(f"{path}: its outline '{mask.name}' is missing. Copy it from the release.")
        else:
            pairs.append(_Pair(path, mask, match["patient"]))
    if num_tables:
        notes = (*notes, f"skipped {num_tables} tables of pixel sizes: no question asks for millimetres")
    return _Files(pairs, notes)


def _write_example(folder: Path) -> None:
    """Writes twelve speckled images of eight pregnancies in the official layout; heads are bright ellipses."""
    training = folder / "training_set"
    training.mkdir(parents=True, exist_ok=True)
    y_HW, x_HW = np.mgrid[:96, :128]
    for index in range(12):
        generator = np.random.default_rng(index)
        distance_HW = np.hypot((x_HW - 30 - 6 * index) / 26, (y_HW - 34 - 2 * index) / 20)
        speckle_HW = generator.integers(40, 90, (96, 128))
        pixels_HW = np.where(distance_HW < 1, speckle_HW + 90, speckle_HW).astype(np.uint8)
        outline_HW = np.where(np.abs(distance_HW - 1) < 0.06, 255, 0).astype(np.uint8)
        name = f"{900001 + index % 8}_{'HC' if index < 8 else '2HC'}"
        PIL.Image.fromarray(pixels_HW).save(training / f"{name}.png")
        PIL.Image.fromarray(outline_HW).save(training / f"{name}_Annotation.png")
