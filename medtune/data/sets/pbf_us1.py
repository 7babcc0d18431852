"""PBF-US1: blind sweeps over a fetal phantom, every frame with its standard plane.

Layouts: the release's folders of studies with frames, and resume.csv with the columns file_name, studie, class, value,
image; or images in one folder with labels.csv, columns file, class and value.

Source: NatalIA PBF-US1, Zenodo 14193949.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image

from medtune.data.images import image_size
from medtune.data.public_set import Frame, PublicSet, SetTable
from medtune.data.raw_folder import clutter_note, unexpected, visible

FLAT = "labels.csv"
RELEASED = "resume.csv"
PLANES = (
    "Biparietal standard plane",
    "Abdominal standard plane",
    "Heart standard plane",
    "Spine standard plane",
    "Femur standard plane",
    "No plane",
)
TITLE = "PBF-US1, fetal phantom planes"
PATIENT_UNIT = (
    "a study (one sweep over the phantom) where resume.csv names it; with labels.csv one frame stands for one patient, "
    "so that frames of one sweep may lie in two splits (see near_duplicates)"
)
_FLAT_COLUMNS = ["file", "class", "value"]
_RELEASED_COLUMNS = ["file_name", "studie", "class", "value"]
# The release's metadata.csv says how a sweep was made; no question needs it.
_UNUSED = ("metadata.csv",)


class _Line(NamedTuple):
    path: Path
    study: str
    plane: str


def public_set() -> PublicSet:
    """Returns the set."""
    return PublicSet(
        title=TITLE,
        licence="CC BY 4.0",
        url="https://zenodo.org/records/14193949",
        patient_unit=PATIENT_UNIT,
        is_phantom=True,
        read=lambda folder, scratch: read_frames(folder),
        write_example=_write_released,
    )


def read_frames(folder: Path) -> SetTable:
    """Returns all frames of either layout.

    Raises:
        FileNotFoundError: There is no table, or a frame that it lists is missing.
        ValueError: The table is not as documented, or a frame is not listed.
    """
    if (folder / RELEASED).is_file():
        lines, folders = list(_released(folder)), [folder, *(path for path in visible(folder) if path.is_dir())]
    else:
        lines, folders = list(_flat(folder)), [folder]
    frames = tuple(
        Frame(
            name=f"{line.study} {line.path.name}".strip(),
            path=line.path,
            patient=line.study or line.path.name,
            size=image_size(line.path),
            labels={"plane": line.plane},
        )
        for line in lines
    )
    return SetTable(frames, clutter_note(folders))


def _flat(folder: Path) -> Iterator[_Line]:
    table = folder / FLAT
    if not table.is_file():
        raise FileNotFoundError(
            f"{table}: the table of classes is missing. It has the columns {', '.join(_FLAT_COLUMNS)}."
        )
    waiting = {path.name: path for path in visible(folder) if path != table}
    for where, row in _rows(table, _FLAT_COLUMNS):
        path = waiting.pop(row["file"], None)
        if path is None:
            raise FileNotFoundError(f"{where}: the image {row['file']!r} is missing from {folder}, or listed twice.")
        yield _Line(path, "", row["class"])
    for path in waiting.values():
        raise unexpected(path, wanted=f"only files that {FLAT} lists")


def _released(folder: Path) -> Iterator[_Line]:
    table = folder / RELEASED
    studies = [path for path in visible(folder) if path != table and path.name not in _UNUSED]
    if odd := [path for path in studies if not path.is_dir()]:
        raise unexpected(odd[0], wanted=f"only folders of studies, {RELEASED} and {', '.join(_UNUSED)}")
    waiting = {(study.name, path.name): path for study in studies for path in visible(study)}
    for where, row in _rows(table, _RELEASED_COLUMNS):
        study, name = row["studie"].strip(), row["file_name"].strip()
        path = waiting.pop((study, name), None)
        if path is None:
            raise FileNotFoundError(f"{where}: the frame {study}/{name} is missing from {folder}, or listed twice.")
        yield _Line(path, study, row["class"])
    for path in waiting.values():
        raise unexpected(path, wanted=f"only frames that {RELEASED} lists")


def _rows(table: Path, columns: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields each line's place and its fields, class and value checked against each other."""
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        given = rows.fieldnames or []
        if given[: len(columns)] != columns:
            raise ValueError(f"{table}: wanted the columns {', '.join(columns)}, got {rows.fieldnames}.")
        for number, row in enumerate(rows, start=2):
            where = f"{table}, line {number}"
            if row["class"] not in PLANES:
                raise ValueError(f"{where}: unknown class {row['class']!r}, there are: {list(PLANES)}.")
            if row["value"] != str(PLANES.index(row["class"])):
                raise ValueError(
                    f"{where}: {row['class']!r} has value {PLANES.index(row['class'])}, got "
                    f"{row['value']!r}. Class and value must agree: take the table of the release."
                )
            yield where, row


def write_flat(folder: Path) -> None:
    """Writes four frames per class: speckle in a sector, with stripes whose angle depends on the class."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [",".join(_FLAT_COLUMNS)]
    for value, plane in enumerate(PLANES):
        for number in range(4):
            _write_frame(folder / f"frame-{value}-{number}.png", value, number)
            lines.append(f"frame-{value}-{number}.png,{plane},{value}")
    (folder / FLAT).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_released(folder: Path) -> None:
    """Writes eight studies with a frame of each class, in the release's layout."""
    lines = [",".join([*_RELEASED_COLUMNS, "image"])]
    for number in range(8):
        study = f"Obstetrics Exam - {number + 1:02d}-Mar-2024_10_AM"
        (folder / study).mkdir(parents=True, exist_ok=True)
        for value, plane in enumerate(PLANES):
            name = f"cineframe_{value}_2024-03-{number + 1:02d}T10.jpeg"
            _write_frame(folder / study / name, value, number)
            lines.append(f"{name},{study},{plane},{value},")
    (folder / RELEASED).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_frame(path: Path, value: int, number: int) -> None:
    y_HW, x_HW = np.mgrid[:48, :64]
    generator = np.random.default_rng([value, number])
    stripes_HW = np.sin((x_HW * np.cos(value) + y_HW * np.sin(value)) / 3 + number)
    pixels_HW = (generator.integers(60, 120, (48, 64)) + 40 * stripes_HW) * (np.abs(x_HW - 32) < 8 + y_HW)
    PIL.Image.fromarray(pixels_HW.astype(np.uint8)).save(path)
