"""FETAL_PLANES_DB: standard planes of maternal-fetal ultrasound from two hospitals, with the authors' split.

Layout: Images/<name>.png and FETAL_PLANES_DB_data.csv, separated by semicolons, with the columns Image_name (without
".png"), Patient_num, Plane, Brain_plane, Operator, US_Machine and "Train " (the release has the blank).

Source: Burgos-Artizzu et al., Scientific Reports 10 (2020); Zenodo 3904280.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.data.images import image_size
from medtune.data.public_set import Frame, PublicSet, SetTable
from medtune.data.types import Split

TABLE = "FETAL_PLANES_DB_data.csv"
COLUMNS = ("Image_name", "Patient_num", "Plane", "Brain_plane", "Operator", "US_Machine", "Train")
PLANES = ("Fetal abdomen", "Fetal brain", "Fetal femur", "Fetal thorax", "Maternal cervix", "Other")
BRAIN = "Fetal brain"
BRAIN_PLANES = ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular", "Other", "Not A Brain")
_SPLITS: dict[str, Split] = {"1": "train", "0": "test"}


def public_set() -> PublicSet:
    """Returns the set."""
    return PublicSet(
        title="FETAL_PLANES_DB, fetal planes of two hospitals",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/3904280",
        patient_unit="Patient_num",
        is_phantom=False,
        read=_read,
        write_example=_write_example,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the images that the table lists.

    The authors split images into train and test by patient. Validation comes out of their train patients: about one in
    eight by patient number, so that the test set stays as published.

    Raises:
        FileNotFoundError: The table or an image is missing.
        ValueError: A column is missing, or a value is not as documented.
    """
    table = folder / TABLE
    if not table.is_file():
        raise FileNotFoundError(f"{table}: the table of planes is missing. Copy it from the release.")
    frames = []
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=";")
        rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
        if missing := [name for name in COLUMNS if name not in rows.fieldnames]:
            raise ValueError(f"{table}: wanted the columns {', '.join(COLUMNS)}, there is no {missing[0]!r}.")
        for line, row in enumerate(rows, start=2):
            frames.append(
                _frame(folder, {name: (value or "").strip() for name, value in row.items()}, f"{table}, line {line}")
            )
    return SetTable(tuple(frames))


def _frame(folder: Path, row: dict[str, str], where: str) -> Frame:
    path = folder / "Images" / f"{row['Image_name'].removesuffix('.png')}.png"
    if not path.is_file():
        raise FileNotFoundError(f"{where}: there is no image {path}. Unpack Images/ of the release.")
    for column, known in (("Plane", PLANES), ("Brain_plane", BRAIN_PLANES), ("Train", tuple(_SPLITS))):
        if row[column] not in known:
            raise ValueError(f"{where}, column {column!r}: wanted one of {', '.join(known)}, got {row[column]!r}.")
    if (row["Plane"] == BRAIN) == (row["Brain_plane"] == "Not A Brain"):
        raise ValueError(
            f"{where}: Plane {row['Plane']!r} and Brain_plane {row['Brain_plane']!r} contradict each other."
        )
    plane = f"{BRAIN}, {row['Brain_plane']}" if row["Plane"] == BRAIN else row["Plane"]
    patient = row["Patient_num"]
    if not patient.isdigit():
        raise ValueError(f"{where}, column 'Patient_num': wanted a number, got {patient!r}.")
    split = _SPLITS[row["Train"]]
    if split == "train" and int(patient) % 8 == 0:
        split = "val"
    return Frame(row["Image_name"], path, patient, image_size(path), {"plane": plane}, split=split)


def _write_example(folder: Path) -> None:
    """Writes 24 patients with two images each, every plane in every split, in the release's layout."""
    (folder / "Images").mkdir(parents=True, exist_ok=True)
    kinds = [(BRAIN, brain) for brain in BRAIN_PLANES[:4]] + [
        (plane, "Not A Brain") for plane in PLANES if plane != BRAIN
    ]
    lines = ["Image_name;Patient_num;Plane;Brain_plane;Operator;US_Machine;Train "]
    rng = np.random.default_rng(3)
    for patient in range(1, 25):
        for image in (1, 2):
            plane, brain = kinds[(2 * patient + image) % len(kinds)]
            name = f"Patient{patient:05d}_Plane{image}_{image}_of_2"
            grey_HW = rng.integers(0, 200, (33, 47), dtype=np.uint8)
            PIL.Image.fromarray(np.dstack([grey_HW] * 3 + [np.full_like(grey_HW, 255)])).save(
                folder / "Images" / f"{name}.png"
            )
            lines.append(f"{name};{patient};{plane};{brain};Op. 1;Voluson E6;{int(patient % 3 != 0)}")
    (folder / TABLE).write_text("\n".join(lines) + "\n", "utf-8")
