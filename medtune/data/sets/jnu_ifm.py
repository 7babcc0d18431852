"""JNU-IFM: intrapartum ultrasound films; every frame says whether pubic symphysis and fetal head are visible.

Layout: us_data/<video>/image/<video>_<frame>.png, mask/<video>_<frame>_mask.png (7 pubic symphysis, 8 fetal head) and
frame_label.csv with the columns frame_id and frame_label (3 none, 4 symphysis alone, 5 head alone, 6 both).

Source: Lu et al., The JNU-IFM dataset, Data in Brief 41 (2022); figshare 14371652.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.data.images import decode_image, image_size
from medtune.data.masks import outer_box
from medtune.data.public_set import Frame, Marked, PublicSet, SetTable
from medtune.data.raw_folder import visible

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
    """Returns the set."""
    return PublicSet(
        title="JNU-IFM, intrapartum films",
        licence="CC BY 4.0",
        url="https://doi.org/10.6084/m9.figshare.14371652",
        patient_unit="a film",
        is_phantom=False,
        read=_read,
        write_example=_write_example,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the labelled frames; a box is taken only of a structure that the frame's label says is visible.

    Raises:
        FileNotFoundError: A table or a frame is missing.
        ValueError: A table or a mask is not as documented.
    """
    films = folder / "us_data" if (folder / "us_data").is_dir() else folder
    frames: list[Frame] = []
    num_without = 0
    for film in visible(films):
        for frame, has_mask in _film(film):
            frames.append(frame)
            num_without += not has_mask
    note = (f"frames without a mask, asked for their landmarks alone: {num_without}",) if num_without else ()
    return SetTable(tuple(frames), note)


def _film(film: Path) -> Iterator[tuple[Frame, bool]]:
    table = film / TABLE
    if not table.is_file():
        raise FileNotFoundError(f"{table}: the labels of this film are missing. Copy them from the release.")
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise ValueError(f"{table}: wanted the columns {', '.join(COLUMNS)}, there is no {missing[0]!r}.")
        for line, row in enumerate(rows, start=2):
            where = f"{table}, line {line}"
            label = (row["frame_label"] or "").strip()
            if label not in LANDMARKS:
                raise ValueError(f"{where}: wanted a frame_label of {', '.join(LANDMARKS)}, got {label!r}.")
            stem = f"{film.name}_{(row['frame_id'] or '').strip()}"
            path, mask = film / "image" / f"{stem}.png", film / "mask" / f"{stem}_mask.png"
            if not path.is_file():
                raise FileNotFoundError(f"{where}: there is no frame {path}. Copy it from the release.")
            seen = LANDMARKS[label]
            boxes = _boxes(mask, path, _SHOWN[seen]) if mask.is_file() else ()
            yield Frame(stem, path, film.name, image_size(path), {"landmarks": seen}, boxes), mask.is_file()


def _boxes(mask: Path, path: Path, shown: set[str]) -> tuple[Marked, ...]:
    marks_HW = decode_image(mask).pixels_HWC.max(axis=2)
    width, height = image_size(path)
    if marks_HW.shape != (height, width):
        raise ValueError(
            f"{mask}: this mask is {marks_HW.shape[1]} x {marks_HW.shape[0]}, its frame {width} x {height}."
        )
    if odd := sorted({int(value) for value in np.unique(marks_HW)} - {0, *STRUCTURES}):
        raise ValueError(f"{mask}: wanted the values 0, 7 and 8, got {odd[0]}. Take mask/, not mask_enhance/.")
    boxes = ((name, outer_box(marks_HW == value)) for value, name in STRUCTURES.items() if name in shown)
    return tuple(Marked(name, box) for name, box in boxes if box)


def _write_example(folder: Path) -> None:
    """Writes eight films of four frames, one of each label."""
    y_HW, x_HW = np.mgrid[:48, :64]
    for film in range(8):
        root = folder / "us_data" / f"2019082{film}T1"
        for part in ("image", "mask"):
            (root / part).mkdir(parents=True, exist_ok=True)
        lines = [",".join(COLUMNS)]
        for number, (label, seen) in enumerate(LANDMARKS.items()):
            rng = np.random.default_rng([film, number])
            grey_HW = rng.integers(20, 90, (48, 64)).astype(np.uint8)
            marks_HW = np.zeros((48, 64), np.uint8)
            if "fetal head" in _SHOWN[seen]:
                marks_HW[np.hypot((x_HW - 40) / 15, (y_HW - 28 - film / 4) / 12) < 1] = 8
            if "pubic symphysis" in _SHOWN[seen]:
                marks_HW[np.hypot((x_HW - 12 - film) / 8, (y_HW - 9) / 4) < 1] = 7
            grey_HW[marks_HW > 0] += 90
            PIL.Image.fromarray(grey_HW).save(root / "image" / f"{root.name}_{number}.png")
            PIL.Image.fromarray(marks_HW).save(root / "mask" / f"{root.name}_{number}_mask.png")
            lines.append(f"{number},{label}")
        (root / TABLE).write_text("\n".join(lines) + "\n", "utf-8")
