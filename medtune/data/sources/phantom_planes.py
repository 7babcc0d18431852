"""PBF-US1: frames of a fetal phantom, asked for the standard plane.

Layout: images in one folder with labels.csv, columns file, class and value.

Source: NatalIA PBF-US1, Zenodo 14193949.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image

from medtune.data.choices import choice_question
from medtune.data.raw_folder import clutter_note, raw_folder, unexpected, visible
from medtune.data.source import Source, SourceTable
from medtune.data.types import MediaRef, Question

TABLE = "labels.csv"
PLANES = {
    "Biparietal standard plane": "biparietal standard plane",
    "Abdominal standard plane": "abdominal standard plane",
    "Heart standard plane": "heart standard plane",
    "Spine standard plane": "spine standard plane",
    "Femur standard plane": "femur standard plane",
    "No plane": "no standard plane",
}
# Fetal-Gauge's random score for plane identification, 0.26, is that of four options.
NUM_OPTIONS = 4
_COLUMNS = ["file", "class", "value"]


class _Frame(NamedTuple):
    path: Path
    plane: str


def source() -> Source:
    """Returns the source."""
    return Source(
        title="PBF-US1, fetal phantom planes",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/14193949",
        provenance="reconstruction",
        patient_unit="one frame stands for one patient: there is one phantom, and the files do not say which sweep a "
        "frame is from; frames of one sweep may lie in two splits (see near_duplicates)",
        read=_read,
        write_example=_write_example,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns one task, plane_identification: four of the six planes as options."""
    folder = raw_folder(root, holds=f"PBF-US1 frames and {TABLE}")
    questions: list[Question] = []
    media: dict[str, MediaRef] = {}
    for frame in _frames(folder):
        name = frame.path.name
        media[name] = MediaRef(frame.path)
        question = choice_question(
            f"{name} plane_identification",
            media_id=name,
            text="Which standard plane does this ultrasound image show?",
            answer=PLANES[frame.plane],
            labels=tuple(PLANES.values()),
            patient_id=name,
            facets={"task": "plane_identification", "phantom": "yes"},
            seed=seed,
            num_options=NUM_OPTIONS,
        )
        questions.append(question)
    return SourceTable(tuple(questions), media, clutter_note([folder]))


def _frames(folder: Path) -> Iterator[_Frame]:
    table = folder / TABLE
    if not table.is_file():
        raise FileNotFoundError(f"{table}: the table of classes is missing. It has the columns {', '.join(_COLUMNS)}.")
    waiting = {path.name: path for path in visible(folder) if path != table}
    codes = list(PLANES)
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != _COLUMNS:
            raise ValueError(f"{table}: wanted the columns {', '.join(_COLUMNS)}, got {rows.fieldnames}.")
        for number, row in enumerate(rows, start=2):
            if row["class"] not in PLANES:
                raise ValueError(f"{table}, line {number}: unknown class {row['class']!r}, there are: {codes}.")
            if row["value"] != str(codes.index(row["class"])):
                raise ValueError(
                    f"{table}, line {number}: {row['class']!r} has value {codes.index(row['class'])}, got "
                    f"{row['value']!r}. Class and value must agree: take the table of the release."
                )
            path = waiting.pop(row["file"], None)
            if path is None:
                raise FileNotFoundError(
                    f"{table}, line {number}: the image {row['file']!r} is missing from {folder}, or listed twice."
                )
            yield _Frame(path, row["class"])
    for path in waiting.values():
        raise unexpected(path, wanted=f"only files that {TABLE} lists")


def _write_example(folder: Path) -> None:
    """Writes four frames per class: speckle in a sector, with stripes whose angle depends on the class."""
    folder.mkdir(parents=True, exist_ok=True)
    y_HW, x_HW = np.mgrid[:48, :64]
    lines = [",".join(_COLUMNS)]
    for value, plane in enumerate(PLANES):
        for number in range(4):
            generator = np.random.default_rng([value, number])
            stripes_HW = np.sin((x_HW * np.cos(value) + y_HW * np.sin(value)) / 3 + number)
            pixels_HW = (generator.integers(60, 120, (48, 64)) + 40 * stripes_HW) * (np.abs(x_HW - 32) < 8 + y_HW)
            PIL.Image.fromarray(pixels_HW.astype(np.uint8)).save(folder / f"frame-{value}-{number}.png")
            lines.append(f"frame-{value}-{number}.png,{plane},{value}")
    (folder / TABLE).write_text("\n".join(lines) + "\n", encoding="utf-8")
