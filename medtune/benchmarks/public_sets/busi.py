"""BUSI: breast ultrasound images with lesion masks, sorted by diagnosis.

Layout: {benign,malignant,normal}/<class> (<n>).png with <class> (<n>)_mask.png, and _mask_1.png, _mask_2.png, ...
where lesions are marked in several files; the folders lie in Dataset_BUSI_with_GT/ or directly.

Source: Al-Dhabyani et al., Dataset of breast ultrasound images, Data in Brief 28 (2020) 104863.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medtune.benchmarks.public_sets import Frame, Marked, PublicSet, SetTable
from medtune.data.media.images import image_size
from medtune.data.media.masks import largest_region, outer_box, read_mask
from medtune.data.raw.folder import MASK_WITHOUT_IMAGE, clutter_note, unexpected_file, visible_entries
from medtune.data.raw.source import Place, ReadRows, Reject, RowError, read_rows
from medtune.data.types import Box, Size

CLASSES = ("normal", "benign", "malignant")
LESION = "lesion"
_NO_MASK, _OTHER_SIZE, _DAMAGED = "they have no mask", "a mask has another size", "a mask is damaged"
LICENCE = "CC0 (as listed in U2-Bench, Table 7)"
PATIENT_UNIT = (
    "one image stands for one patient: the release has about 780 images of 600 women and does not say "
    "whose they are; images that look alike are taken for one woman's in splits and in intervals"
)
_OFFICIAL_FOLDER = "Dataset_BUSI_with_GT"
_NAME = re.compile(r"(?P<stem>(?P<class>benign|malignant|normal) \((?P<number>\d+)\))(?P<mask>_mask(_\d+)?)?\.png")


@dataclass(frozen=True, slots=True)
class BusiImage:
    stem: str  # The file name without its ending, for example "benign (2)".
    path: Path
    lesion_class: str  # "benign", "malignant" or "normal".
    size: Size  # Width and height of the image in pixels.
    around: Box | None  # The smallest box around all lesions, in pixels; None for a normal breast.
    largest: Box | None  # The smallest box around the largest connected lesion, in pixels; None for a normal breast.
    # Why questions may not ask about places, as its masks do not say where lesions are; None where they do.
    unmarked: str | None = None

    @property
    def is_measurable(self) -> bool:
        return self.unmarked is None


def public_set() -> PublicSet:
    return PublicSet(
        title="BUSI, breast ultrasound images",
        licence=LICENCE,
        url="https://doi.org/10.1016/j.dib.2019.104863",
        patient_unit=PATIENT_UNIT,
        stands_for_patient="image",
        is_phantom=False,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    found = busi_cases(folder)
    frames = tuple(
        Frame(
            name=case.stem,
            path=case.path,
            patient=case.stem,
            size=case.size,
            labels={"diagnosis": case.lesion_class, "measurable": "yes" if case.is_measurable else "no"},
            boxes=(Marked(LESION, case.around),) if case.around else (),
        )
        for case in found.cases
    )
    return SetTable(frames, found.notes, found.rejects)


class BusiCases(NamedTuple):
    cases: list[BusiImage]
    notes: tuple[str, ...]  # Sentences for the manifest that say what was left out and how much.
    rejects: tuple[Reject, ...]  # The images that cannot be used, with the reasons.


def busi_cases(root: Path) -> BusiCases:
    """Returns the images of all three classes.

    In some copies of BUSI the images and their first masks were scaled, but not their further masks; others come
    without masks. Where a mask is missing, damaged or of another size than its image, the place of the lesion is
    unknown, and the image is marked as not measurable. An image is rejected if its mask contradicts the class. A mask
    without an image is rejected too, as is any file that does not belong to the set, unless it is empty.
    """
    folder = root / _OFFICIAL_FOLDER if (root / _OFFICIAL_FOLDER).is_dir() else root
    folders = [folder / lesion_class for lesion_class in CLASSES]
    of_classes = [_of_class(place, str(place.relative_to(root))) for place in folders]
    cases = [case for of_class in of_classes for case in of_class.taken]
    notes = clutter_note([folder, *folders])
    if strays := sum(map(_is_stray, (path for each in folders for path in visible_entries(each)))):
        notes = (*notes, f"skipped {strays} empty files that the release does not have")
    for why, count in Counter(case.unmarked for case in cases if case.unmarked).most_common():
        notes = (*notes, f"images asked for their diagnosis alone, as {why}: {count}")
    return BusiCases(cases, notes, tuple(reject for of_class in of_classes for reject in of_class.rejects))


class _File(NamedTuple):
    path: Path
    place: Place
    stem: str
    is_mask: bool


def _of_class(folder: Path, file: str) -> ReadRows[BusiImage]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: this folder of BUSI is missing. Give the folder that holds benign, malignant and normal."
        )
    entries = [path for path in visible_entries(folder) if not _is_stray(path)]
    numbered = [(path, Place(file, number)) for number, path in enumerate(entries, start=1)]
    files, odd = read_rows(numbered, lambda each: _file(*each))
    images = sorted((each for each in files if not each.is_mask), key=lambda each: (len(each.stem), each.stem))
    if not images:
        raise ValueError(f"{folder}: wanted images such as '{folder.name} (1).png', there are none.")
    masks: dict[str, list[Path]] = {image.stem: [] for image in images}
    alone: dict[str, RowError] = {}
    for mask in (each for each in files if each.is_mask):
        if mask.stem in masks:
            masks[mask.stem].append(mask.path)
        else:
            alone[mask.stem] = mask.place.error(MASK_WITHOUT_IMAGE, media=folder / f"{mask.stem}.png")
    cases, rejects = read_rows(images, lambda image: _case(image, masks[image.stem], folder.name))
    return ReadRows(cases, (*odd, *(error.reject for error in alone.values()), *rejects))


def _is_stray(path: Path) -> bool:
    """Returns whether a file is empty and has no name of the release."""
    return _NAME.fullmatch(path.name) is None and path.is_file() and path.stat().st_size == 0


def _file(path: Path, place: Place) -> _File:
    lesion_class = path.parent.name
    match = _NAME.fullmatch(path.name)
    if match is None or match["class"] != lesion_class:
        raise unexpected_file(path, place, wanted=f"only '{lesion_class} (1).png', '{lesion_class} (1)_mask.png', ...")
    return _File(path, place, match["stem"], bool(match["mask"]))


def _case(image: _File, masks: list[Path], lesion_class: str) -> BusiImage:
    path, place, stem, _ = image
    first = path.with_name(f"{stem}_mask.png")
    with place.reject_broken(path):
        size = image_size(path)
    mask_HW = np.zeros((size.height, size.width), dtype=np.bool_)
    if first not in masks:
        return BusiImage(stem, path, lesion_class, size, None, None, _NO_MASK)
    for mask in masks:
        try:
            if image_size(mask) != size:
                return BusiImage(stem, path, lesion_class, size, None, None, _OTHER_SIZE)
            mask_HW |= read_mask(mask, size)
        except ValueError:
            return BusiImage(stem, path, lesion_class, size, None, None, _DAMAGED)
    around = outer_box(mask_HW)
    if (around is None) != (lesion_class == "normal"):
        found = "marks a lesion" if around else "is empty"
        said = f"the mask of a {lesion_class} image {found}. Take it from the release again."
        raise place.error(said, media=first)
    return BusiImage(stem, path, lesion_class, size, around, outer_box(largest_region(mask_HW)) if around else None)
