"""IU X-ray as MedEvalKit scores it: test.json with findings and impression, and the folder images.

    test.json      [{"id": "open_i_1020", "image": ["CXR1020_IM-0017-1001.png", ...], "findings": "...",
                   "impression": "..."}]
    images/        the files of NLMCXR_png.tgz

Its 296 studies are those of R2Gen's validation part, and none of R2Gen's test part. The title, a note and a facet of
every question say so.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/IU_XRAY/IU_XRAY.py and datas/IU_XRAY/test.json.
"""

from functools import partial
from pathlib import Path

from medtune.benchmarks.iu_xray.studies import (
    LICENCE,
    MEDEVALKIT,
    OTHER_FILE,
    PATIENT_UNIT,
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

FILE = "test.json"
NUM_STUDIES = 296
"""The number of studies. Source: counted in datas/IU_XRAY/test.json of MedEvalKit@9b12e3b."""


def source() -> Source:
    """Returns the source, which is for evaluation alone."""
    return Source(
        title="IU X-ray, MedEvalKit's test set, which is R2Gen's validation part",
        licence=LICENCE,
        url="https://github.com/alibaba-damo-academy/MedEvalKit",
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=_read,
        read_questions=partial(_read, needs_media=False),
        test_only=True,
    )


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{FILE} and the folder images")
    path = folder / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: wanted MedEvalKit's {FILE}, there is none. Give the folder that holds it.")
    listed = json_file(path, list, "a list of studies")
    rows = read_rows(enumerate(listed, start=1), lambda row: _study(row[1], Place(FILE, row[0]), folder / "images"))
    if len(listed) == NUM_STUDIES:
        release = MEDEVALKIT
        note = "the studies are R2Gen's validation part: no score stands beside those of R2Gen's 590 test studies"
    else:
        release, note = OTHER_FILE, f"{len(listed):,} studies, which are not the {NUM_STUDIES} of MedEvalKit"
    return study_table(
        rows.taken, folder=folder, release=release, notes=(note,), rejects=rows.rejects, needs_media=needs_media
    )


def _study(value: object, place: Place, images: Path) -> Study:
    study_id, findings, impression = (told(value, field, place) for field in ("id", "findings", "impression"))
    files = listed_images(images, value.get("image") if isinstance(value, dict) else None, place, "image")
    patients = {patient_of(file.name, place, "image") for file in files}
    if len(patients) > 1:
        raise place.error("the images belong to several patients", field="image")
    if not findings and not impression:
        raise place.error("wanted findings or an impression, both are empty", field="findings")
    return Study(study_id, min(patients), files, findings, impression, place)
