"""HC18: fetal heads in clinical ultrasound, with the outline of each head and its circumference.

Official layout: <number>_HC.png with <number>_HC_Annotation.png (_2HC and _3HC for further images of a pregnancy) in
the folder training_set or directly in the set's folder, and training_set_pixel_size_and_HC.csv. Second layout, in which
the set is also distributed: images/<number>.jpg with masks/<number>.jpg. In both, a mask is the outline of an ellipse
around the head.

Source: van den Heuvel et al., Automated measurement of fetal head circumference, PLoS ONE 13 (2018); Zenodo 1327317.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.public_sets import Frame, Marked, PublicSet, SetTable
from medtune.data.media.images import image_size
from medtune.data.media.masks import Mask, fill_outline, outer_box, read_mask
from medtune.data.raw.csv_header import CsvLine, csv_lines
from medtune.data.raw.folder import MASK_WITHOUT_IMAGE, clutter_note, unexpected_file, visible_entries
from medtune.data.raw.source import Place, Reject, read_rows
from medtune.data.types import Box, Size

TABLE = "training_set_pixel_size_and_HC.csv"
COLUMNS = ("filename", "pixel size(mm)", "head circumference (mm)")
HEAD = "head"
PATIENT_UNIT = "the number that opens a file's name (806 in the official training set); HC18 names no patients"
STANDS_FOR_PATIENT = "file number"
_OFFICIAL = re.compile(r"(?P<patient>\d+)_\d*HC(?P<mask>_Annotation)?\.png")
_PLAIN = re.compile(r"(?P<patient>\d+)\.(jpg|jpeg|png)")


class Pair(NamedTuple):
    image: Path
    mask: Path
    patient: str  # The number before the first underscore of the file name, which HC18 assigns to a pregnancy.
    place: Place  # The position of the image in the set's folder, for error messages.


class HeadFiles(NamedTuple):
    pairs: list[Pair]
    notes: tuple[str, ...]  # Sentences for the manifest that say what was left out and how much.
    # Images without an outline, outlines without an image, and files that do not belong to the set.
    rejects: tuple[Reject, ...] = ()
    num_tables: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    name: str  # The image's file name without its ending.
    size: Size  # Width and height of the image in pixels.
    mask_HW: Mask  # Whether each pixel lies inside the head; the area within the outline is filled.
    box: Box  # The smallest box around the head, in pixels.


def public_set() -> PublicSet:
    return PublicSet(
        title="HC18, fetal heads",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/1327317",
        patient_unit=PATIENT_UNIT,
        stands_for_patient=STANDS_FOR_PATIENT,
        is_phantom=False,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the images of the training set; the test set was published without outlines.

    If the table is in the folder, each image has the values hc_mm (head circumference) and pixel_size_mm. An image
    without an outline or table line, or one that does not have the documented format, is rejected without affecting
    other images.
    """
    files = head_files(folder)
    table = next((path for path in (folder / TABLE, folder / "training_set" / TABLE) if path.is_file()), None)
    lines = csv_lines(table, COLUMNS, file=str(table.relative_to(folder))) if table else []
    by_name = {line.cells[COLUMNS[0]]: line for line in lines} if table else None
    frames, rejects = read_rows(files.pairs, lambda pair: _frame(pair, by_name))
    without = () if table else (f"no question asks for millimetres: there is no {TABLE}",)
    return SetTable(tuple(frames), (*files.notes, *without), (*files.rejects, *rejects))


def _frame(pair: Pair, lines: Mapping[str, CsvLine] | None) -> Frame:
    head = read_head(pair)
    if lines is not None and pair.image.name not in lines:
        raise pair.place.error(
            f"{TABLE} has no line for this image. Take the table of the same release.", media=pair.image
        )
    return Frame(
        name=head.name,
        path=pair.image,
        patient=pair.patient,
        size=head.size,
        boxes=(Marked(HEAD, head.box),),
        values=_lengths(lines[pair.image.name]) if lines is not None else {},
    )


def _lengths(line: CsvLine) -> dict[str, float]:
    found = {}
    for column, name in zip(COLUMNS[1:], ("pixel_size_mm", "hc_mm"), strict=True):
        try:
            number = float(line.cells[column])
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            raise line.place.error(f"wanted a length, got {line.cells[column]!r}.", field=column)
        found[name] = number
    return found


def read_head(pair: Pair) -> Head:
    with pair.place.reject_broken(pair.image):
        size = image_size(pair.image)
    with pair.place.reject_broken(pair.mask):
        mask_HW = fill_outline(read_mask(pair.mask, size))
    box = outer_box(mask_HW)
    if box is None:
        raise pair.place.error("the mask is empty. Take it from the release again.", media=pair.mask)
    return Head(pair.image.stem, size, mask_HW, box)


def head_files(folder: Path) -> HeadFiles:
    """Returns the images and outlines of a folder in either layout; a file that does not belong to HC18 is rejected."""
    if (folder / "images").is_dir():
        return _files_of_folders(folder / "images", folder / "masks", clutter_note([folder]))
    notes = clutter_note([folder])
    for name in ("test_set", "test_set.zip"):
        if (folder / name).exists():
            notes = (*notes, "skipped the test set: HC18 publishes no outlines for it")
    training = folder / "training_set"
    if not training.is_dir():
        return _official(folder, "", notes)
    return _official(training, training.name, (*notes, *clutter_note([training])))


def _files_of_folders(images: Path, masks: Path, notes: tuple[str, ...]) -> HeadFiles:
    if not masks.is_dir():
        raise FileNotFoundError(f"{masks}: the folder of the outlines is missing. Put it beside 'images'.")
    outlines = {
        path.stem: (path, Place(masks.name, number)) for number, path in enumerate(visible_entries(masks), start=1)
    }

    def pair(numbered: tuple[int, Path]) -> Pair:
        number, path = numbered
        place = Place(images.name, number)
        match = _PLAIN.fullmatch(path.name)
        if match is None:
            raise unexpected_file(path, place, wanted="only '<number>.jpg' or '<number>.png'")
        if path.stem not in outlines:
            raise place.error(f"its mask in {masks.name} is missing. Copy it from the release.", media=path)
        return Pair(path, outlines.pop(path.stem)[0], match["patient"], place)

    pairs, rejects = read_rows(enumerate(visible_entries(images), start=1), pair)
    alone = (place.error(MASK_WITHOUT_IMAGE, media=path).reject for path, place in outlines.values())
    return HeadFiles(pairs, (*notes, *clutter_note([images, masks])), (*rejects, *alone))


def _official(folder: Path, file: str, notes: tuple[str, ...]) -> HeadFiles:
    found = [
        path for path in visible_entries(folder) if path.name not in ("test_set", "test_set.zip", "training_set.zip")
    ]
    images = [(number, path) for number, path in enumerate(found, start=1) if path.suffix != ".csv"]
    pairs, rejects = read_rows(images, lambda each: _official_pair(each[1], Place(file, each[0])))
    return HeadFiles([pair for pair in pairs if pair], notes, rejects, len(found) - len(images))


def _official_pair(path: Path, place: Place) -> Pair | None:
    match = _OFFICIAL.fullmatch(path.name)
    if match is None:
        raise unexpected_file(path, place, wanted="only '000_HC.png', '000_HC_Annotation.png', '000_2HC.png', ...")
    if match["mask"]:
        image = path.with_name(path.name.replace("_Annotation", ""))
        if not image.is_file():
            raise place.error(MASK_WITHOUT_IMAGE, media=image)
        return None
    mask = path.with_name(f"{path.stem}_Annotation.png")
    if not mask.is_file():
        raise place.error("its outline is missing. Copy it from the release.", media=mask)
    return Pair(path, mask, match["patient"], place)
