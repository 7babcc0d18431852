"""IU X-ray as R2Gen released it: annotation.json with findings and splits, and the folder images.

    annotation.json      {"train": [...], "val": [...], "test": [{"id": "CXR1_IM-0001", "report": ...,
                         "image_path": ["CXR1_IM-0001/0.png", "CXR1_IM-0001/1.png"], "split": "test"}]}
    images/              the images, at the paths that annotation.json names

One public copy names the test part by blanks. Another file of the same form divides 3,826 studies in another way; it is
told apart by its counts, and no published number stands beside its scores.

Source: cuhksz-nlp/R2Gen@5a2e63f, modules/datasets.py (the layout) and README.md (where to get it).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.iu_xray.studies import (
    LICENCE,
    OTHER_SPLIT,
    PATIENT_UNIT,
    R2GEN,
    Study,
    listed_images,
    patient_of,
    study_table,
    told,
)
from medtune.data.files import json_file
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.row_errors import Place, read_rows
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import SPLITS, Split

FILE = "annotation.json"
STUDIES: dict[Split, int] = {"train": 2069, "val": 296, "test": 590}
"""The number of studies in each part. Source: Chen et al. 2020, arXiv 2010.16056; counted in the released file."""
_KNOWN_OTHER = {"train": 3062, "val": 382, "test": 382}


class _Row(NamedTuple):
    value: object
    split: Split
    place: Place


def source() -> Source:
    return Source(
        title="IU X-ray, R2Gen's split",
        licence=LICENCE,
        url="https://github.com/cuhksz-nlp/R2Gen",
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=_read,
        read_questions=partial(_read, needs_media=False),
        keeps_leaks=True,
        text_unit="report",
    )


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{FILE} and the folder images")
    parts = _parts(folder / FILE)
    counts = {split: len(rows) for split, rows in parts.items()}
    rows = read_rows(_rows(parts), lambda row: _study(row, folder / "images"))
    written = " / ".join(f"{counts[split]:,}" for split in SPLITS)
    note = f"{written} studies in train, val and test"
    if counts == STUDIES:
        release, notes = R2GEN, (f"{note}: R2Gen's split",)
    else:
        known = ", a split of 3,826 studies that other repositories use," if counts == _KNOWN_OTHER else ""
        release, notes = OTHER_SPLIT, (f"{note}{known} are not R2Gen's 2,069 / 296 / 590",)
    return study_table(
        rows.taken, folder=folder, release=release, notes=notes, rejects=rows.rejects, needs_media=needs_media
    )


def _parts(path: Path) -> dict[Split, list[object]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: wanted R2Gen's {FILE}, there is none. Give the folder that holds it. "
            "MedEvalKit's test.json is read by --source iu_xray_medevalkit, Open-i's files by --source iu_xray_open_i."
        )
    wanted = "an object with the lists train, val and test"
    read = json_file(path, dict, wanted)
    parts = {name.strip() or "test": rows for name, rows in read.items()}
    is_whole = set(parts) == set(SPLITS) and len(parts) == len(read)
    if not is_whole or not all(isinstance(rows, list) for rows in parts.values()):
        raise ValueError(f"{path}: wanted {wanted}, found {', '.join(map(repr, read))}.")
    return {split: parts[split] for split in SPLITS}


def _rows(parts: dict[Split, list[object]]) -> Iterator[_Row]:
    numbered = ((split, value) for split, rows in parts.items() for value in rows)
    for number, (split, value) in enumerate(numbered, start=1):
        yield _Row(value, split, Place(FILE, number))


def _study(row: _Row, images: Path) -> Study:
    value, split, place = row
    study_id, report = told(value, "id", place), told(value, "report", place)
    if not report:
        raise place.error("wanted the text of the findings, it is empty", field="report")
    stated = value.get("split", split) if isinstance(value, dict) else split
    if stated != split:
        raise place.error(
            f"the row says {stated!r} and lies in the part {split!r}. Correct one of them.", field="split"
        )
    return Study(
        id=study_id,
        patient=patient_of(study_id, place, "id"),
        images=listed_images(images, value.get("image_path") if isinstance(value, dict) else None, place, "image_path"),
        findings=report,
        impression="",
        place=place,
        split=split,
    )
