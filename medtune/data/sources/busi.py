"""BUSI: breast ultrasound images with lesion masks, asked about diagnosis, place and a red box.

Layout: {benign,malignant,normal}/<class> (<n>).png with <class> (<n>)_mask.png, and _mask_1.png, _mask_2.png, ...
where lesions are marked in several files.

Source: Al-Dhabyani et al., Dataset of breast ultrasound images, Data in Brief 28 (2020) 104863.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.data.choices import choice_question
from medtune.data.images import Size, image_size
from medtune.data.masks import (
    NINE_CELLS,
    NOT_VISIBLE,
    Mask,
    box_size,
    largest_region,
    nine_cell,
    outer_box,
    read_mask,
)
from medtune.data.raw_folder import clutter_note, raw_folder, unexpected, visible
from medtune.data.seeding import stable_int
from medtune.data.source import Source, SourceTable
from medtune.data.types import Box, MediaRef, Question

CLASSES = ("normal", "benign", "malignant")
TISSUE = "normal breast tissue"
MARKED = {"normal": TISSUE, "benign": "benign lesion", "malignant": "malignant lesion"}
_OFFICIAL_FOLDER = "Dataset_BUSI_with_GT"
_NAME = re.compile(r"(?P<stem>(?P<class>benign|malignant|normal) \((?P<number>\d+)\))(?P<mask>_mask(_\d+)?)?\.png")


@dataclass(frozen=True, slots=True)
class _Case:
    """One image.

    Attributes:
        around: Holds all lesions; None for a normal breast.
        largest: Holds the largest connected lesion; None for a normal breast.
        is_measurable: Whether all masks fit the image, so that one may ask about places.
    """

    stem: str
    path: Path
    lesion_class: str
    size: Size
    around: Box | None
    largest: Box | None
    is_measurable: bool = True


def source() -> Source:
    """Returns the source."""
    return Source(
        title="BUSI, breast ultrasound images",
        licence="CC0 (as listed in U2-Bench, Table 7)",
        url="https://doi.org/10.1016/j.dib.2019.104863",
        provenance="reconstruction",
        patient_unit="one image stands for one patient: the release has about 780 images of 600 women and does not say "
        "whose they are, so that one woman's images may lie in two splits",
        read=_read,
        write_example=_write_example,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns three tasks.

    - diagnosis: normal, benign or malignant, on the plain image.
    - lesion_localisation: the cell in which the centre of the smallest box around all lesions lies, or "not visible".
    - red_box_grounding: what the red box marks. It is the outer box of the largest connected lesion, so that it holds
      one lesion. A normal image gets the relative box of a lesion image drawn by seed: place and size of a box
      alone then do not tell tissue from lesion.

    Copies of BUSI go round whose images and first masks were scaled, and whose further masks were not. Where a further
    mask has another size than its image nobody can say where that lesion is: such an image is asked for its diagnosis
    alone, and a note counts it. A first mask of another size is an error.
    """
    folder = raw_folder(root, holds="the BUSI folders benign, malignant and normal")
    if (folder / _OFFICIAL_FOLDER).is_dir():
        folder = folder / _OFFICIAL_FOLDER
    folders = [folder / lesion_class for lesion_class in CLASSES]
    cases = [case for lesion_class in CLASSES for case in _cases(folder / lesion_class, lesion_class)]
    donors = [case for case in cases if case.largest is not None]
    questions: list[Question] = []
    media: dict[str, MediaRef] = {}
    for case in cases:
        media[case.stem] = MediaRef(case.path)
        questions.append(_diagnosis(case, seed))
        if case.is_measurable:
            box = case.largest or _tissue_box(case, donors[stable_int(seed, "tissue", case.stem) % len(donors)])
            media[f"{case.stem} boxed"] = MediaRef(case.path, (box,))
            questions.extend(_place_questions(case, box, seed))
    notes = clutter_note([folder, *folders])
    num_misfits = sum(not case.is_measurable for case in cases)
    if num_misfits:
        notes = (*notes, f"images asked for their diagnosis alone, as a further mask has another size: {num_misfits}")
    return SourceTable(tuple(questions), media, notes)


def _diagnosis(case: _Case, seed: int) -> Question:
    return choice_question(
        f"{case.stem} diagnosis",
        media_id=case.stem,
        text="What does this breast ultrasound image show?",
        answer=case.lesion_class,
        labels=CLASSES,
        patient_id=case.stem,
        facets={"task": "diagnosis", "lesion_class": case.lesion_class},
        seed=seed,
    )


def _place_questions(case: _Case, box: Box, seed: int) -> Iterator[Question]:
    ask = partial(choice_question, patient_id=case.stem, seed=seed)
    facets = {"lesion_class": case.lesion_class}
    around = case.around
    yield ask(
        f"{case.stem} lesion_localisation",
        media_id=case.stem,
        text="Where in this breast ultrasound image is the lesion? "
        "If there are several, answer for the smallest box around all of them.",
        answer=nine_cell(around, *case.size) if around else NOT_VISIBLE,
        labels=(*NINE_CELLS, NOT_VISIBLE),
        facets={"task": "lesion_localisation", **facets}
        | ({"box_size": box_size(around, *case.size)} if around else {}),
    )
    yield ask(
        f"{case.stem} red_box_grounding",
        media_id=f"{case.stem} boxed",
        text="What does the red box in this breast ultrasound image mark?",
        answer=MARKED[case.lesion_class],
        labels=tuple(MARKED.values()),
        facets={"task": "red_box_grounding", "box_size": box_size(box, *case.size), **facets},
    )


def _cases(folder: Path, lesion_class: str) -> Iterator[_Case]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: this folder of BUSI is missing. Give the folder that holds benign, malignant and normal."
        )
    images: dict[str, Path] = {}
    masks: dict[str, list[Path]] = {}
    for path in visible(folder):
        match = _NAME.fullmatch(path.name)
        if match is None or match["class"] != lesion_class:
            raise unexpected(path, wanted=f"only '{lesion_class} (1).png', '{lesion_class} (1)_mask.png', ...")
        if match["mask"]:
            masks.setdefault(match["stem"], []).append(path)
        else:
            images[match["stem"]] = path
    if not images:
        raise ValueError(f"{folder}: wanted images such as '{lesion_class} (1).png', there are none.")
    for stem in masks.keys() - images.keys():
        raise ValueError(f"{masks[stem][0]}: this mask has no image. Copy '{stem}.png' from the release, or remove it.")
    for stem in sorted(images, key=lambda stem: (len(stem), stem)):
        if images[stem].with_name(f"{stem}_mask.png") not in masks.get(stem, []):
            raise FileNotFoundError(f"{images[stem]}: its mask '{stem}_mask.png' is missing. Copy it from the release.")
        yield _case(stem, images[stem], masks[stem], lesion_class)


def _case(stem: str, path: Path, masks: list[Path], lesion_class: str) -> _Case:
    size = image_size(path)
    first = path.with_name(f"{stem}_mask.png")
    if any(mask != first and image_size(mask) != size for mask in masks):
        return _Case(stem, path, lesion_class, size, None, None, is_measurable=False)
    mask_HW = read_mask(masks, size, image=path)
    around = outer_box(mask_HW)
    if (around is None) != (lesion_class == "normal"):
        found = "marks a lesion" if around else "is empty"
        raise ValueError(f"{masks[0]}: the mask of a {lesion_class} image {found}. Take it from the release again.")
    return _Case(stem, path, lesion_class, size, around, outer_box(largest_region(mask_HW)) if around else None)


def _tissue_box(case: _Case, donor: _Case) -> Box:
    """Returns the donor's lesion box at the same relative place of this image, at least one pixel wide."""
    box, (width, height) = donor.largest, case.size
    if box is None:
        raise ValueError(f"{donor.path}: a normal image has no lesion box to lend.")
    x0, y0 = box.x0 * width // donor.size.width, box.y0 * height // donor.size.height
    x1, y1 = box.x1 * width // donor.size.width, box.y1 * height // donor.size.height
    return Box(x0, y0, max(x1, x0 + 1), max(y1, y0 + 1))


def _write_example(folder: Path) -> None:
    """Writes eight speckled images per class; lesions are dark ellipses, and 'benign (2)' has two mask files."""
    for class_index, lesion_class in enumerate(CLASSES):
        (folder / lesion_class).mkdir(parents=True, exist_ok=True)
        for number in range(1, 9):
            generator = np.random.default_rng([class_index, number])
            pixels_HW = generator.integers(90, 160, (60, 80)).astype(np.uint8)
            stem = folder / lesion_class / f"{lesion_class} ({number})"
            centres = [(14 + 7 * number, 12 + 5 * number)] if lesion_class != "normal" else []
            if (lesion_class, number) == ("benign", 2):
                centres.append((62, 12))
            radius = 9 if lesion_class == "malignant" else 6
            mask_files = [_ellipse(centre, radius - 2 * index) for index, centre in enumerate(centres)]
            mask_files = mask_files or [np.zeros((60, 80), dtype=np.bool_)]
            for index, mask_HW in enumerate(mask_files):
                pixels_HW[mask_HW] //= 4
                suffix = f"_mask_{index}" if index else "_mask"
                PIL.Image.fromarray(np.where(mask_HW, 255, 0).astype(np.uint8)).save(f"{stem}{suffix}.png")
            PIL.Image.fromarray(pixels_HW).save(f"{stem}.png")


def _ellipse(centre: tuple[int, int], radius: int) -> Mask:
    y_HW, x_HW = np.mgrid[:60, :80]
    return np.asarray(np.hypot((x_HW - centre[0]) / 1.4, y_HW - centre[1]) <= radius)
