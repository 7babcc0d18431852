"""HC18: fetal heads in clinical ultrasound, with the outline of each head and its circumference.

Layouts: the official <number>_HC.png with <number>_HC_Annotation.png (_2HC, _3HC for further images of a pregnancy) in
training_set/ or directly, and training_set_pixel_size_and_HC.csv beside it; or images/<number>.jpg with
masks/<number>.jpg. Masks are outlines of the head's ellipse.

Source: van den Heuvel et al., Automated measurement of fetal head circumference, PLoS ONE 13 (2018); Zenodo 1327317.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image

from medtune.data.images import Size, image_size
from medtune.data.masks import Mask, fill_outline, outer_box, read_mask
from medtune.data.public_set import Frame, Marked, PublicSet, SetTable
from medtune.data.raw_folder import clutter_note, unexpected, visible
from medtune.data.types import Box

TABLE = "training_set_pixel_size_and_HC.csv"
COLUMNS = ("filename", "pixel size(mm)", "head circumference (mm)")
HEAD = "head"
PATIENT_UNIT = "the number that opens a file's name (806 in the official training set); HC18 names no patients"
_OFFICIAL = re.compile(r"(?P<patient>\d+)_\d*HC(?P<mask>_Annotation)?\.png")
_PLAIN = re.compile(r"(?P<patient>\d+)\.(jpg|jpeg|png)")


class Pair(NamedTuple):
    """An image, its outline, and the number before the first underscore, which HC18 gives a pregnancy."""

    image: Path
    mask: Path
    patient: str


class HeadFiles(NamedTuple):
    """All pairs of a folder, notes on what was left out, and how many tables lie between the images."""

    pairs: list[Pair]
    notes: tuple[str, ...]
    num_tables: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """A head, filled, and its outer box."""

    name: str
    size: Size
    mask_HW: Mask
    box: Box


class _Measured(NamedTuple):
    pixel_size_mm: float
    hc_mm: float


def public_set() -> PublicSet:
    """Returns the set."""
    return PublicSet(
        title="HC18, fetal heads",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/1327317",
        patient_unit=PATIENT_UNIT,
        is_phantom=False,
        read=_read,
        write_example=write_example,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the training set: the test set has no outlines.

    `values` holds hc_mm and pixel_size_mm where the table lies in the folder.

    Raises:
        FileNotFoundError: An outline is missing.
        ValueError: A file or the table is not as documented, or the table knows none of the images.
    """
    files = head_files(folder)
    table = next((path for path in (folder / TABLE, folder / "training_set" / TABLE) if path.is_file()), None)
    measured = {} if table is None else _measured(table)
    frames = []
    for pair in files.pairs:
        head = read_head(pair)
        row = measured.get(pair.image.name)
        if table is not None and row is None:
            raise ValueError(f"{table}: no line for the image {pair.image.name}. Take the table of the same release.")
        frames.append(
            Frame(
                name=head.name,
                path=pair.image,
                patient=pair.patient,
                size=head.size,
                boxes=(Marked(HEAD, head.box),),
                values=row._asdict() if row else {},
            )
        )
    without = () if table else (f"no question asks for millimetres: there is no {TABLE}",)
    return SetTable(tuple(frames), (*files.notes, *without))


def _measured(table: Path) -> Mapping[str, _Measured]:
    found = {}
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise ValueError(f"{table}: wanted the columns {', '.join(COLUMNS)}, there is no {missing[0]!r}.")
        for line, row in enumerate(rows, start=2):
            numbers = []
            for column in COLUMNS[1:]:
                try:
                    number = float(row[column])
                except (TypeError, ValueError):
                    number = math.nan
                if not 0 < number < math.inf:
                    raise ValueError(f"{table}, line {line}, column {column!r}: wanted a length, got {row[column]!r}.")
                numbers.append(number)
            found[row[COLUMNS[0]]] = _Measured(*numbers)
    return found


def read_head(pair: Pair) -> Head:
    """Returns the filled head of a pair.

    Raises:
        ValueError: The outline is open, empty, or of another size than the image.
    """
    size = image_size(pair.image)
    outline_HW = read_mask([pair.mask], size, image=pair.image)
    try:
        mask_HW = fill_outline(outline_HW)
    except ValueError as error:
        raise ValueError(f"{pair.mask}: {error}") from error
    box = outer_box(mask_HW)
    if box is None:
        raise ValueError(f"{pair.mask}: the mask is empty. Take it from the release again.")
    return Head(pair.image.stem, size, mask_HW, box)


def head_files(folder: Path) -> HeadFiles:
    """Returns the images with outlines of a folder, in either layout.

    Raises:
        FileNotFoundError: An outline is missing.
        ValueError: A file does not belong there.
    """
    if (folder / "images").is_dir():
        images, masks = folder / "images", folder / "masks"
        if not masks.is_dir():
            raise FileNotFoundError(f"{masks}: the folder of the outlines is missing. Put it beside 'images'.")
        return HeadFiles(list(_plain(images, masks)), clutter_note([folder, images, masks]))
    notes = clutter_note([folder])
    for name in ("test_set", "test_set.zip"):
        if (folder / name).exists():
            notes = (*notes, "skipped the test set: HC18 publishes no outlines for it")
    training = folder / "training_set"
    if not training.is_dir():
        return _official(folder, notes)
    return _official(training, (*notes, *clutter_note([training])))


def _plain(images: Path, masks: Path) -> Iterator[Pair]:
    outlines = {path.stem: path for path in visible(masks)}
    for path in visible(images):
        match = _PLAIN.fullmatch(path.name)
        if match is None:
            raise unexpected(path, wanted="only '<number>.jpg' or '<number>.png'")
        mask = outlines.pop(path.stem, None)
        if mask is None:
            raise FileNotFoundError(f"{path}: its mask in {masks} is missing. Copy it from the release.")
        yield Pair(path, mask, match["patient"])
    for path in outlines.values():
        raise ValueError(f"{path}: this mask has no image in {images}. Copy the image, or remove the mask.")


def _official(folder: Path, notes: tuple[str, ...]) -> HeadFiles:
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
            pairs.append(Pair(path, mask, match["patient"]))
    return HeadFiles(pairs, notes, num_tables)


def write_example(folder: Path) -> None:
    """Writes twelve speckled images of eight pregnancies as released: heads are bright ellipses, a pixel is 0.5 mm."""
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
