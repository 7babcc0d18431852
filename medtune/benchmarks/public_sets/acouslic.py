"""ACOUSLIC-AI: ultrasound sweeps over the abdomen of pregnant women, with masks and fetal abdominal circumferences.

Layout, in the folder acouslic-ai-train-set or directly in the set's folder:

    images/stacked_fetal_ultrasound/<uuid>.mha      six sweeps one after another, each with the same number of frames
    masks/stacked_fetal_abdomen/<uuid>.mha          masks of the same shape: 0 background, 1 the abdomen in a frame that
                                                    is optimal for measuring, 2 the abdomen in a suboptimal frame
    circumferences/fetal_abdominal_circumferences_per_sweep.csv
                                                    columns uuid, subject_id and sweep_1_ac_mm to sweep_6_ac_mm; a cell
                                                    is empty if its sweep does not show the plane

Source: ACOUSLIC-AI (MICCAI 2024), Zenodo 12697994. The meaning of the mask values 1 (optimal) and 2 (suboptimal) was
taken from public code and was not checked on a real file.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from scipy import ndimage

from medtune.benchmarks.public_sets import Frame, Marked, PublicSet, SetTable
from medtune.data.media.masks import outer_box
from medtune.data.media.metaimage import read_metaimage
from medtune.data.raw.csv_header import CsvLine, csv_lines
from medtune.data.raw.folder import masks_without_image, unexpected_file, visible_entries
from medtune.data.raw.source import Place, read_rows, repeat_rejects
from medtune.data.types import Box, Size

FILMS, MASKS = "images/stacked_fetal_ultrasound", "masks/stacked_fetal_abdomen"
TABLE = "circumferences/fetal_abdominal_circumferences_per_sweep.csv"
NUM_SWEEPS = 6
VIEWS = {0: "none", 1: "optimal", 2: "suboptimal"}
ABDOMEN = "fetal abdomen"
# Neighbouring frames of a film look alike, so three frames of each view are enough. The number is our own choice.
FRAMES_PER_VIEW = 3
_RELEASED = "acouslic-ai-train-set"
_COLUMNS = ("uuid", "subject_id", *(f"sweep_{number}_ac_mm" for number in range(1, NUM_SWEEPS + 1)))


def public_set() -> PublicSet:
    return PublicSet(
        title="ACOUSLIC-AI, blind sweeps for the abdominal circumference",
        licence="CC BY-NC-SA 4.0",
        url="https://zenodo.org/records/12697994",
        patient_unit="subject_id",
        stands_for_patient="patient",
        is_phantom=False,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns up to three frames of each view from each sweep file, evenly spread over the frames of that view.

    The box of a frame is that of the abdomen. The value ac_mm of an optimal frame is the circumference that the table
    states for its sweep; it is missing if the table states none. A file whose mask or table line is missing or does not
    have the documented format is rejected without affecting other files, and counts as many times as a file gives
    frames on average.
    """
    root = folder / _RELEASED if (folder / _RELEASED).is_dir() else folder
    films, masks = root / FILMS, root / MASKS
    if not films.is_dir():
        raise FileNotFoundError(f"{films}: the folder of sweeps is missing. Copy it from the release.")
    lines = {line.cells["uuid"]: line for line in csv_lines(root / TABLE, _COLUMNS, file=_name(root / TABLE, folder))}
    numbered = [
        (Place(_name(films, folder), number), path) for number, path in enumerate(visible_entries(films), start=1)
    ]
    found, rejects = read_rows(numbered, lambda each: _frames(each[0], each[1], masks, lines, scratch))
    frames = tuple(frame for of_film in found for frame in of_film)
    rejects = repeat_rejects(
        (*rejects, *masks_without_image(films, masks, file=_name(masks, folder))), made=len(frames), of=len(found)
    )
    return SetTable(frames, (f"at most {FRAMES_PER_VIEW} frames of each view were taken per file",), rejects)


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))


def _frames(place: Place, path: Path, masks: Path, lines: Mapping[str, CsvLine], scratch: Path) -> list[Frame]:
    if path.suffix != ".mha":
        raise unexpected_file(path, place, wanted="only '<uuid>.mha'")
    if path.stem not in lines:
        raise place.error("the table has no line for these sweeps. Take both from one release.", media=path)
    line, mask = lines[path.stem], masks / path.name
    subject = line.cells["subject_id"]
    if not subject:
        raise line.place.error("wanted a subject, the cell is empty.", field="subject_id")
    with place.reject_broken(path):
        film_THW = read_metaimage(path)
    with place.reject_broken(mask):
        marks_THW = read_metaimage(mask)
    if film_THW.ndim != 3 or film_THW.shape != marks_THW.shape:
        said = f"sweeps {film_THW.shape} and mask {marks_THW.shape} must be one grid of frames."
        raise place.error(said, media=path)
    found = marks_THW.reshape(len(marks_THW), -1).max(axis=1)
    if odd := sorted({int(value) for value in found} - VIEWS.keys()):
        raise place.error(f"wanted a mask with the values 0, 1 and 2, got {odd[0]}.", media=mask)
    frames = []
    for value, view in VIEWS.items():
        for index in _spread(np.flatnonzero(found == value)):
            # The released file name is used only in the scratch folder, which is deleted afterwards.
            written = scratch / f"{path.stem}_{index}.png"
            PIL.Image.fromarray(film_THW[index]).save(written)
            box = _box(marks_THW[index] > 0) if value else None
            sweep = int(index) * NUM_SWEEPS // len(film_THW) + 1
            height, width = film_THW.shape[1:]
            frame = Frame(
                name=f"{path.stem} {index}",
                path=written,
                patient=subject,
                size=Size(width, height),
                labels={"view": view},
                boxes=(Marked(ABDOMEN, box),) if box else (),
                values=_circumference(line, f"sweep_{sweep}_ac_mm") if view == "optimal" else {},
            )
            frames.append(frame)
    return frames


def _spread(indices: NDArray[np.intp]) -> list[int]:
    if len(indices) <= FRAMES_PER_VIEW:
        return [int(index) for index in indices]
    places = (np.arange(FRAMES_PER_VIEW) + 0.5) * len(indices) / FRAMES_PER_VIEW
    return [int(indices[int(place)]) for place in places]


def _box(mask_HW: NDArray[np.bool_]) -> Box | None:
    """Returns the smallest box around the mask after filling its holes; None if the mask is empty.

    A mask may be a filled area, which filling does not change, or an outline, whose box it changes little.
    """
    return outer_box(ndimage.binary_fill_holes(mask_HW))


def _circumference(line: CsvLine, column: str) -> dict[str, float]:
    text = line.cells[column]
    if not text:
        return {}
    try:
        ac_mm = float(text)
    except ValueError:
        ac_mm = math.nan
    if not 0 < ac_mm < math.inf:
        raise line.place.error(f"wanted a length in mm, got {text!r}.", field=column)
    return {"ac_mm": ac_mm}
