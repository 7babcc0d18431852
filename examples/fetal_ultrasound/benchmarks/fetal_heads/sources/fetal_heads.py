"""HC18: questions about the place of the fetal head and about a red box, made from clinical ultrasound images.

The layouts of the image folder are described in medtune/benchmarks/public_sets/hc18.py.

Source: van den Heuvel et al., Automated measurement of fetal head circumference, PLoS ONE 13 (2018); Zenodo 1327317.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.public_sets.hc18 import (
    COLUMNS,
    PATIENT_UNIT,
    STANDS_FOR_PATIENT,
    TABLE,
    Head,
    Pair,
    head_files,
    read_head,
)
from medtune.data.media.images import decode_image
from medtune.data.media.masks import NINE_CELLS, NOT_VISIBLE, Mask, box_size, cell_of_box
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.lettered_options import choice_question
from medtune.data.raw.source import Source, SourceTable, missing_media, read_rows, repeat_rejects
from medtune.data.seeding import stable_int
from medtune.data.types import Box, MediaRef, Question

WHOLE = "whole fetal head"
PART = "part of the fetal head"
OUTSIDE = "tissue outside the fetal head"
MARKED = (WHOLE, PART, OUTSIDE)
# The sides of a small box as a share of the head's box: small enough to fit into the head's ellipse, and beside it.
_PART_SHARE = 0.4
_BLACK_BELOW = 10
_TISSUE_SHARE = 0.5


def source() -> Source:
    """Returns the source."""
    return Source(
        title="HC18, fetal heads",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/1327317",
        provenance="reconstruction",
        patient_unit=PATIENT_UNIT,
        read=_read,
        write_example=write_example,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns the questions of two tasks about the images in a folder.

    - head_localisation: in which of nine cells the centre of the head's box lies. "not visible" is among the options
      but never the answer.
    - red_box_grounding: what the red box marks. The seed chooses one of three boxes: the smallest box around the whole
      head; a smaller box that lies inside the head; or a box of that smaller size that does not touch the head and is
      black in at most half of its area. The size of a box tells the whole head from the other two; to tell these two
      apart, a model has to look at the image.
    """
    folder = raw_folder(root, holds="HC18's images and masks")
    files = head_files(folder)
    if not files.pairs and not files.rejects:
        raise ValueError(f"{folder}: wanted HC18's images (training_set/000_HC.png or images/<id>.jpg), found none.")
    asked, broken = read_rows(files.pairs, lambda pair: _questions(pair, seed))
    questions = [question for of_head in asked for question, _ in of_head]
    media = {question.media_id: (ref,) for of_head in asked for question, ref in of_head}
    num_without = sum(len(of_head) == 1 for of_head in asked)
    notes = files.notes
    if files.num_tables:
        notes = (*notes, f"skipped {files.num_tables} tables of pixel sizes: no question asks for millimetres")
    if num_without:
        notes = (*notes, f"images without red_box_grounding, as no box of the wanted kind fits: {num_without}")
    rejects = (*files.rejects, *broken)
    missing = missing_media(rejects, folder, fetch=source().url)
    rejects = repeat_rejects(rejects, made=len(questions), of=len(asked))
    return SourceTable(tuple(questions), media, notes, rejects, missing, stands_for_patient=STANDS_FOR_PATIENT)


def _questions(pair: Pair, seed: int) -> list[tuple[Question, MediaRef]]:
    head = read_head(pair)
    found = [(_localisation(head, pair, seed), MediaRef(pair.image))]
    marked = MARKED[stable_int(seed, "marked", head.name) % len(MARKED)]
    box = head.box if marked == WHOLE else _small_box(head, pair, marked, seed)
    if box is not None:
        found.append((_grounding(head, pair, seed, box=box, marked=marked), MediaRef(pair.image, (box,))))
    return found


def _localisation(head: Head, pair: Pair, seed: int) -> Question:
    return choice_question(
        f"{head.name} head_localisation",
        media_id=head.name,
        text="Where in this ultrasound image is the fetal head?",
        answer=cell_of_box(head.box, *head.size),
        labels=(*NINE_CELLS, NOT_VISIBLE),
        patient_id=pair.patient,
        facets={"task": "head_localisation", "phantom": "no", "box_size": box_size(head.box, *head.size)},
        seed=seed,
    )


def _grounding(head: Head, pair: Pair, seed: int, *, box: Box, marked: str) -> Question:
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


def _small_box(head: Head, pair: Pair, marked: str, seed: int) -> Box | None:
    """Returns a small box inside the head, or one outside it, drawn by seed from all that fit; None if none fits."""
    width = max(1, round((head.box.x1 - head.box.x0) * _PART_SHARE))
    height = max(1, round((head.box.y1 - head.box.y0) * _PART_SHARE))
    fits = partial(_fits, width=width, height=height)
    if marked == PART:
        allowed_HW = fits(head.mask_HW, share=1.0)
    else:
        with pair.place.reject_broken(pair.image):
            tissue_HW = decode_image(pair.image).pixels_HWC.max(axis=2) >= _BLACK_BELOW
        allowed_HW = fits(~head.mask_HW, share=1.0) & fits(tissue_HW, share=_TISSUE_SHARE)
    step = max(1, min(width, height) // 8)
    corners = np.argwhere(allowed_HW[::step, ::step]) * step
    if not len(corners):
        return None
    y0, x0 = map(int, corners[stable_int(seed, "place", head.name) % len(corners)])
    return Box(x0, y0, x0 + width, y0 + height)


def _fits(wanted_HW: Mask, *, width: int, height: int, share: float) -> Mask:
    """Returns for each upper left corner whether at least `share` of a box there consists of wanted pixels."""
    sums_HW = np.pad(wanted_HW.astype(np.int64).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    inside_HW = (
        sums_HW[height:, width:] - sums_HW[:-height, width:] - sums_HW[height:, :-width] + sums_HW[:-height, :-width]
    )
    return np.asarray(inside_HW >= share * width * height)


def write_example(folder: Path) -> None:
    """Writes twelve synthetic images of eight pregnancies in the official layout: bright ellipses, pixels of 0.5 mm."""
    training = folder / "training_set"
    training.mkdir(parents=True, exist_ok=True)
    y_HW, x_HW = np.mgrid[:96, :128]
    lines = [",".join(COLUMNS)]
    for index in range(12):
        generator = np.random.default_rng(index)
        distance_HW = np.hypot((x_HW - 30 - 6 * index) / 26, (y_HW - 34 - 2 * index) / 20)
        speckle_HW = generator.integers(40, 90, (96, 128))
        pixels_HW = np.where(distance_HW < 1, speckle_HW + 90, speckle_HW).astype(np.uint8)
        outline_HW = np.where(np.abs(distance_HW - 1) < 0.06, 255, 0).astype(np.uint8)
        name = f"{900001 + index % 8}_{'HC' if index < 8 else '2HC'}"
        PIL.Image.fromarray(pixels_HW).save(training / f"{name}.png")
        PIL.Image.fromarray(outline_HW).save(training / f"{name}_Annotation.png")
        # Ramanujan's second approximation of an ellipse's circumference.
        h = ((26 - 20) / (26 + 20)) ** 2
        hc_mm = 0.5 * math.pi * (26 + 20) * (1 + 3 * h / (10 + math.sqrt(4 - 3 * h)))
        lines.append(f"{name}.png,0.5,{hc_mm:.2f}")
    (folder / TABLE).write_text("\n".join(lines) + "\n", "utf-8")
