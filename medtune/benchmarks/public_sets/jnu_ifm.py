"""JNU-IFM: intrapartum ultrasound films; every frame says whether pubic symphysis and fetal head are visible.

Layout: us_data/<video>/image/<video>_<frame>.png, mask/<video>_<frame>_mask.png (7 pubic symphysis, 8 fetal head) and
frame_label.csv with the columns frame_id and frame_label (3 none, 4 symphysis alone, 5 head alone, 6 both).

Source: Lu et al., The JNU-IFM dataset, Data in Brief 41 (2022); figshare 14371652.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from medtune.benchmarks.public_sets import Frame, Marked, PublicSet, SetTable
from medtune.data.media.images import decode_image, image_size
from medtune.data.media.masks import outer_box
from medtune.data.raw.csv_header import CsvLine, csv_lines
from medtune.data.raw.folder import visible_entries
from medtune.data.raw.source import Place, read_rows, repeat_rejects
from medtune.data.types import Size

TABLE = "frame_label.csv"
COLUMNS = ("frame_id", "frame_label")
LANDMARKS = {"3": "none", "4": "symphysis", "5": "head", "6": "both"}
STRUCTURES = {7: "pubic symphysis", 8: "fetal head"}
_SHOWN = {
    "none": set[str](),
    "symphysis": {"pubic symphysis"},
    "head": {"fetal head"},
    "both": set(STRUCTURES.values()),
}


def public_set() -> PublicSet:
    return PublicSet(
        title="JNU-IFM, intrapartum films",
        licence="CC BY 4.0",
        url="https://doi.org/10.6084/m9.figshare.14371652",
        patient_unit="a film",
        stands_for_patient="film",
        is_phantom=False,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the labelled frames, with boxes only of the structures that the frame's label says are visible.

    A film whose table is missing or cannot be read is rejected without affecting other films, and counts as many times
    as a film gives frames on average. A table line is rejected if it, its frame or its mask does not have the
    documented format.
    """
    films = folder / "us_data" if (folder / "us_data").is_dir() else folder
    # The names of films contain dates and may identify patients, so messages do not repeat them.
    name = str(films.relative_to(folder) / "[{}]" / TABLE)
    numbered = [(film, name.format(number)) for number, film in enumerate(visible_entries(films), start=1)]
    tables, lost = read_rows(numbered, lambda each: (each[0], _lines(*each)))
    lines = [(film, line) for film, of_film in tables for line in of_film]
    seen: set[str] = set()
    found, rejects = read_rows(lines, lambda each: _frame(*each, seen))
    num_without = sum(not each.has_mask for each in found)
    note = (f"frames without a mask, asked for their landmarks alone: {num_without}",) if num_without else ()
    frames = tuple(each.frame for each in found)
    return SetTable(frames, note, (*repeat_rejects(lost, made=len(lines), of=len(tables)), *rejects))


def _lines(film: Path, file: str) -> list[CsvLine]:
    with Place(file, 1).reject_broken(film / TABLE):
        return csv_lines(film / TABLE, COLUMNS, file=file)


class _LabelledFrame(NamedTuple):
    frame: Frame
    has_mask: bool


def _frame(film: Path, line: CsvLine, seen: set[str]) -> _LabelledFrame:
    place, row = line
    label = row["frame_label"]
    if label not in LANDMARKS:
        said = f"wanted a frame_label of {', '.join(LANDMARKS)}, got {label!r}."
        raise place.error(said, field="frame_label", media=film / TABLE)
    stem = f"{film.name}_{row['frame_id']}"
    path, mask = film / "image" / f"{stem}.png", film / "mask" / f"{stem}_mask.png"
    if not path.is_file():
        raise place.error("there is no such frame. Copy it from the release.", field="frame_id", media=path)
    if stem in seen:
        raise place.error("this frame was listed before.", field="frame_id", media=path)
    with place.reject_broken(path):
        size = image_size(path)
    boxes = _boxes(mask, size, place, _SHOWN[LANDMARKS[label]]) if mask.is_file() else ()
    seen.add(stem)
    return _LabelledFrame(Frame(stem, path, film.name, size, {"landmarks": LANDMARKS[label]}, boxes), mask.is_file())


def _boxes(mask: Path, size: Size, place: Place, shown: set[str]) -> tuple[Marked, ...]:
    with place.reject_broken(mask):
        marks_HW = decode_image(mask).pixels_HWC.max(axis=2)
    height, width = marks_HW.shape
    if (width, height) != size:
        raise place.error(f"this mask is {width} x {height}, its frame {size.width} x {size.height}.", media=mask)
    if odd := sorted({int(value) for value in np.unique(marks_HW)} - {0, *STRUCTURES}):
        said = f"wanted a mask with the values 0, 7 and 8, got {odd[0]}. Take mask/, not mask_enhance/."
        raise place.error(said, media=mask)
    boxes = ((name, outer_box(marks_HW == value)) for value, name in STRUCTURES.items() if name in shown)
    return tuple(Marked(name, box) for name, box in boxes if box)
