"""FETAL_PLANES_DB: standard planes of maternal-fetal ultrasound from two hospitals, with the authors' split.

Layout: Images/<name>.png and FETAL_PLANES_DB_data.csv, separated by semicolons, with the columns Image_name (without
".png"), Patient_num, Plane, Brain_plane, Operator, US_Machine and "Train " (with the trailing blank of the release).

Source: Burgos-Artizzu et al., Scientific Reports 10 (2020); Zenodo 3904280.
"""

from pathlib import Path

from medtune.benchmarks.public_sets import Frame, PublicSet, SetTable
from medtune.data.media.images import image_size
from medtune.data.raw.csv_header import CsvLine, csv_lines
from medtune.data.raw.source import read_rows
from medtune.data.types import Split

TABLE = "FETAL_PLANES_DB_data.csv"
COLUMNS = ("Image_name", "Patient_num", "Plane", "Brain_plane", "Operator", "US_Machine", "Train")
PLANES = ("Fetal abdomen", "Fetal brain", "Fetal femur", "Fetal thorax", "Maternal cervix", "Other")
BRAIN = "Fetal brain"
BRAIN_PLANES = ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular", "Other", "Not A Brain")
_SPLITS: dict[str, Split] = {"1": "train", "0": "test"}


def public_set() -> PublicSet:
    return PublicSet(
        title="FETAL_PLANES_DB, fetal planes of two hospitals",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/3904280",
        patient_unit="Patient_num",
        stands_for_patient="patient",
        is_phantom=False,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the images that the table lists.

    The authors split the images into training and test data by patient. About one in eight of their training patients,
    chosen by patient number, becomes validation data; the test data stay as published. A line that does not have the
    documented format, or whose image is missing, is rejected without affecting other lines.
    """
    seen: set[str] = set()
    lines = csv_lines(folder / TABLE, COLUMNS, file=TABLE, delimiter=";")
    frames, rejects = read_rows(lines, lambda line: _frame(folder, line, seen))
    return SetTable(tuple(frames), rejects=rejects)


def _frame(folder: Path, line: CsvLine, seen: set[str]) -> Frame:
    place, row = line
    name = row["Image_name"].removesuffix(".png")
    path = folder / "Images" / f"{name}.png"
    if not path.is_file():
        raise place.error("there is no such image. Unpack Images/ of the release.", field="Image_name", media=path)
    if name in seen:
        raise place.error("this image was listed before.", field="Image_name", media=path)
    for column, known in (("Plane", PLANES), ("Brain_plane", BRAIN_PLANES), ("Train", tuple(_SPLITS))):
        if row[column] not in known:
            raise place.error(f"wanted one of {', '.join(known)}, got {row[column]!r}.", field=column)
    if (row["Plane"] == BRAIN) == (row["Brain_plane"] == "Not A Brain"):
        said = f"Plane {row['Plane']!r} and Brain_plane {row['Brain_plane']!r} contradict each other."
        raise place.error(said, field="Brain_plane")
    plane = f"{BRAIN}, {row['Brain_plane']}" if row["Plane"] == BRAIN else row["Plane"]
    patient = row["Patient_num"]
    if not patient.isdecimal():
        raise place.error("wanted a number, this is none.", field="Patient_num")
    split = _SPLITS[row["Train"]]
    if split == "train" and int(patient) % 8 == 0:
        split = "val"
    with place.reject_broken(path):
        size = image_size(path)
    seen.add(name)
    facets = {"scanner": row["US_Machine"]} if row["US_Machine"] else {}
    return Frame(name, path, patient, size, {"plane": plane}, split=split, facets=facets)
