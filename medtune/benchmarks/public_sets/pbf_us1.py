"""PBF-US1: blind sweeps over a fetal phantom, every frame with its standard plane.

Released layout: a folder of frames for each study, resume.csv with the columns file_name, studie, class, value and
image, and metadata.csv with one line for each study. Its column position states how the phantom lay: OA or OP (occiput
anterior or posterior), SA or SP (sacrum anterior or posterior). Its other columns, among them Age and Gender, describe
the volunteer who held the probe. Second layout: all frames in one folder, and labels.csv with the columns file, class
and value.

Source: NatalIA PBF-US1, Zenodo 14193949; columns: BiomedLabUGgt/NatalIA-PBF-US1, README.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.public_sets import Frame, PublicSet, SetTable
from medtune.data.media.images import image_size
from medtune.data.raw.csv_header import CsvLine, csv_lines
from medtune.data.raw.folder import clutter_note, unexpected_file, visible_entries
from medtune.data.raw.source import Place, read_rows

FLAT = "labels.csv"
RELEASED = "resume.csv"
PLANES = (
    "Biparietal standard plane", "Abdominal standard plane", "Heart standard plane", "Spine standard plane",
    "Femur standard plane", "No plane",
)  # fmt: skip
TITLE = "PBF-US1, fetal phantom planes"
PATIENT_UNIT = (
    "a study (one sweep over the phantom) where resume.csv names it; with labels.csv one frame stands for one patient, "
    "so that frames of one sweep that do not look alike may lie in two splits"
)
STANDS_FOR_PATIENT = "sweep"
_FLAT_COLUMNS = ["file", "class", "value"]
_RELEASED_COLUMNS = ["file_name", "studie", "class", "value"]
_STUDIES = "metadata.csv"
_STUDY_COLUMNS = ["Study Name", "position"]


class _Released(NamedTuple):
    path: Path
    place: Place


def public_set() -> PublicSet:
    return PublicSet(
        title=TITLE,
        licence="CC BY 4.0",
        url="https://zenodo.org/records/14193949",
        patient_unit="a study (one sweep over the phantom) where resume.csv names it; the frames of labels.csv name "
        "none, so that all are test",
        stands_for_patient=STANDS_FOR_PATIENT,
        is_phantom=True,
        read=lambda folder, scratch: read_frames(folder),
    )


def read_frames(folder: Path) -> SetTable:
    """Returns all frames of either layout; a wrong line, or a file that no line lists, is rejected on its own."""
    if (folder / RELEASED).is_file():
        table, columns = RELEASED, _RELEASED_COLUMNS
        entries = [path for path in visible_entries(folder) if path.name not in (table, _STUDIES)]
        waiting = {
            (study.name, path.name): _Released(path, Place(f"[{number}]", place))
            for number, study in enumerate(entries, start=1)
            for place, path in enumerate(visible_entries(study) if study.is_dir() else [study], start=1)
        }
    else:
        table, columns, entries = FLAT, _FLAT_COLUMNS, []
        listed = (path for path in visible_entries(folder) if path.name != table)
        waiting = {("", path.name): _Released(path, Place("", number)) for number, path in enumerate(listed, start=1)}
    positions = _positions(folder / _STUDIES)
    frames, rejects = read_rows(
        csv_lines(folder / table, columns, file=table), lambda line: _frame(folder, line, waiting, positions)
    )
    wanted = f"only files that {table} lists"
    unlisted = (unexpected_file(path, place, wanted=wanted).reject for path, place in waiting.values())
    note = clutter_note([folder, *(path for path in entries if path.is_dir())])
    return SetTable(tuple(frames), note, (*rejects, *unlisted))


def _positions(table: Path) -> dict[str, str]:
    lines = csv_lines(table, _STUDY_COLUMNS, file=table.name) if table.is_file() else []
    name, position = _STUDY_COLUMNS
    return {line.cells[name]: line.cells[position] for line in lines if line.cells[position]}


def _frame(
    folder: Path, line: CsvLine, waiting: dict[tuple[str, str], _Released], positions: Mapping[str, str]
) -> Frame:
    place, row = line
    column = _FLAT_COLUMNS[0] if _FLAT_COLUMNS[0] in row else _RELEASED_COLUMNS[0]
    study, name = row.get("studie", ""), row[column]
    found = waiting.pop((study, name), None)
    if found is None:
        raise place.error("there is no such frame, or it was listed before", field=column, media=folder / study / name)
    if row["class"] not in PLANES:
        raise place.error(f"unknown class {row['class']!r}, there are: {', '.join(PLANES)}.", field="class")
    value = PLANES.index(row["class"])
    if row["value"] != str(value):
        said = f"{row['class']!r} has value {value}, got {row['value']!r}. Take the table of the release."
        raise place.error(said, field="value")
    with place.reject_broken(found.path):
        size = image_size(found.path)
    facets = {"position": positions[study]} if study in positions else {}
    full_name = f"{study} {name}".strip()
    return Frame(full_name, found.path, study or None, size, {"plane": row["class"]}, facets=facets)
