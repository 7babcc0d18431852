"""The sources of IU X-ray: R2Gen's split, MedEvalKit's copy of a part of it, and the files of Open-i.

`iu_xray`, as R2Gen released it: annotation.json with findings and splits, and the folder images.

    annotation.json      {"train": [...], "val": [...], "test": [{"id": "CXR1_IM-0001", "report": ...,
                         "image_path": ["CXR1_IM-0001/0.png", "CXR1_IM-0001/1.png"], "split": "test"}]}
    images/              the images, at the paths that annotation.json names

One public copy names the test part by blanks. Another file of the same form divides 3,826 studies in another way; it is
told apart by its counts, and no published number stands beside its scores.

Source: cuhksz-nlp/R2Gen@5a2e63f, modules/datasets.py (the layout) and README.md (where to get it).

`iu_xray_medevalkit`, as MedEvalKit scores it: test.json with findings and impression, and the folder images.

    test.json      [{"id": "open_i_1020", "image": ["CXR1020_IM-0017-1001.png", ...], "findings": "...",
                   "impression": "..."}]
    images/        the files of NLMCXR_png.tgz

Its 296 studies are those of R2Gen's validation part, and none of R2Gen's test part. The title, a note and a facet of
every question say so.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/IU_XRAY/IU_XRAY.py and datas/IU_XRAY/test.json.

`iu_xray_open_i`, as the National Library of Medicine gives it: one XML file for each report, and the PNG files.

    NLMCXR_reports/ecgen-radiology/*.xml     the reports, also directly in one of the two folders or in ecgen-radiology
    NLMCXR_png/*.png                         the images, named after the ids of the parentImage elements

The files bring no split, so that medtune divides them by patient. A report without findings and impression, or without
images, is left out and counted.

Source: Open-i, NLMCXR_reports.tgz and NLMCXR_png.tgz; Demner-Fushman et al. 2016, doi:10.1093/jamia/ocv080.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from medtune.benchmarks.iu_xray.studies import (
    LICENCE,
    MEDEVALKIT,
    OPEN_I,
    OPEN_I_FILES,
    OTHER_FILE,
    OTHER_SPLIT,
    PATIENT_UNIT,
    R2GEN,
    ChestStudy,
    image_file,
    listed_images,
    patient_of,
    study_table,
    told,
)
from medtune.data.files import json_file
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import Place, Source, SourceTable, read_rows
from medtune.data.types import SPLITS, Split

ANNOTATION = "annotation.json"
STUDIES: dict[Split, int] = {"train": 2069, "val": 296, "test": 590}
"""The number of studies in each part. Source: Chen et al. 2020, arXiv 2010.16056; counted in the released file."""
_OTHER_STUDIES = {"train": 3062, "val": 382, "test": 382}
TEST = "test.json"
NUM_STUDIES = 296
"""The number of studies. Source: counted in datas/IU_XRAY/test.json of MedEvalKit@9b12e3b."""
_REPORTS = ("NLMCXR_reports/ecgen-radiology", "NLMCXR_reports", "ecgen-radiology")
_IMAGES = "NLMCXR_png"
_NORMAL, _NOT_INDEXED = "normal", "no indexing"


def _released(title: str, url: str, read: Callable[..., SourceTable], **more: Any) -> Source:
    return Source(
        title=f"IU X-ray, {title}",
        licence=LICENCE,
        url=url,
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=read,
        read_questions=partial(read, needs_media=False),
        **more,
    )


def iu_xray() -> Source:
    """IU X-ray as R2Gen released it: annotation.json with findings and splits, and the folder images."""
    return _released(
        "R2Gen's split", "https://github.com/cuhksz-nlp/R2Gen", _read_r2gen, keeps_leaks=True, text_unit="report"
    )


def iu_xray_medevalkit() -> Source:
    """IU X-ray as MedEvalKit scores it: test.json with findings and impression, and the folder images."""
    kit = "https://github.com/alibaba-damo-academy/MedEvalKit"
    return _released("MedEvalKit's test set, which is R2Gen's validation part", kit, _read_medevalkit, test_only=True)


def iu_xray_open_i() -> Source:
    """IU X-ray as the National Library of Medicine gives it: one XML file for each report, and the PNG files."""
    return _released("the files of Open-i", OPEN_I, _read_open_i)


class _ListedReport(NamedTuple):
    value: object
    split: Split
    place: Place


def _read_r2gen(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{ANNOTATION} and the folder images")
    parts = _parts(folder / ANNOTATION)
    counts = {split: len(rows) for split, rows in parts.items()}
    rows = read_rows(_annotated(parts), lambda row: _of_r2gen(row, folder / "images"))
    written = " / ".join(f"{counts[split]:,}" for split in SPLITS)
    note = f"{written} studies in train, val and test"
    if counts == STUDIES:
        release, notes = R2GEN, (f"{note}: R2Gen's split",)
    else:
        known = ", a split of 3,826 studies that other repositories use," if counts == _OTHER_STUDIES else ""
        release, notes = OTHER_SPLIT, (f"{note}{known} are not R2Gen's 2,069 / 296 / 590",)
    return study_table(
        rows.taken, folder=folder, release=release, notes=notes, rejects=rows.rejects, needs_media=needs_media
    )


def _parts(path: Path) -> dict[Split, list[object]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: wanted R2Gen's {ANNOTATION}, there is none. Give the folder that holds it. "
            "MedEvalKit's test.json is read by --source iu_xray_medevalkit, Open-i's files by --source iu_xray_open_i."
        )
    wanted = "an object with the lists train, val and test"
    read = json_file(path, dict, wanted)
    parts = {name.strip() or "test": rows for name, rows in read.items()}
    is_whole = set(parts) == set(SPLITS) and len(parts) == len(read)
    if not is_whole or not all(isinstance(rows, list) for rows in parts.values()):
        raise ValueError(f"{path}: wanted {wanted}, found {', '.join(map(repr, read))}.")
    return {split: parts[split] for split in SPLITS}


def _annotated(parts: dict[Split, list[object]]) -> Iterator[_ListedReport]:
    numbered = ((split, value) for split, rows in parts.items() for value in rows)
    for number, (split, value) in enumerate(numbered, start=1):
        yield _ListedReport(value, split, Place(ANNOTATION, number))


def _of_r2gen(row: _ListedReport, images: Path) -> ChestStudy:
    value, split, place = row
    study_id, report = told(value, "id", place), told(value, "report", place)
    if not report:
        raise place.error("wanted the text of the findings, it is empty", field="report")
    stated = value.get("split", split) if isinstance(value, dict) else split
    if stated != split:
        raise place.error(
            f"the row says {stated!r} and lies in the part {split!r}. Correct one of them.", field="split"
        )
    return ChestStudy(
        id=study_id,
        patient=patient_of(study_id, place, "id"),
        images=listed_images(images, value.get("image_path") if isinstance(value, dict) else None, place, "image_path"),
        findings=report,
        impression="",
        place=place,
        split=split,
    )


def _read_medevalkit(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{TEST} and the folder images")
    path = folder / TEST
    if not path.is_file():
        raise FileNotFoundError(f"{path}: wanted MedEvalKit's {TEST}, there is none. Give the folder that holds it.")
    listed = json_file(path, list, "a list of studies")
    rows = read_rows(
        enumerate(listed, start=1), lambda row: _of_medevalkit(row[1], Place(TEST, row[0]), folder / "images")
    )
    if len(listed) == NUM_STUDIES:
        release = MEDEVALKIT
        note = "the studies are R2Gen's validation part: no score stands beside those of R2Gen's 590 test studies"
    else:
        release, note = OTHER_FILE, f"{len(listed):,} studies, which are not the {NUM_STUDIES} of MedEvalKit"
    return study_table(
        rows.taken, folder=folder, release=release, notes=(note,), rejects=rows.rejects, needs_media=needs_media
    )


def _of_medevalkit(value: object, place: Place, images: Path) -> ChestStudy:
    study_id, findings, impression = (told(value, field, place) for field in ("id", "findings", "impression"))
    files = listed_images(images, value.get("image") if isinstance(value, dict) else None, place, "image")
    patients = {patient_of(file.name, place, "image") for file in files}
    if len(patients) > 1:
        raise place.error("the images belong to several patients", field="image")
    if not findings and not impression:
        raise place.error("wanted findings or an impression, both are empty", field="findings")
    return ChestStudy(study_id, min(patients), files, findings, impression, place)


def _read_open_i(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{_REPORTS[0]} and {_IMAGES}")
    reports = next((folder / name for name in _REPORTS if any((folder / name).glob("*.xml"))), None)
    if reports is None:
        raise FileNotFoundError(
            f"{folder}: wanted reports (*.xml) in {', '.join(_REPORTS)}; there are none. Unpack NLMCXR_reports.tgz."
        )
    files = sorted(reports.glob("*.xml"), key=lambda path: (len(path.stem), path.stem))
    numbered = ((file, Place(str(reports.relative_to(folder)), number)) for number, file in enumerate(files, start=1))
    rows = read_rows(numbered, lambda row: _of_open_i(row[0], row[1], folder / _IMAGES))
    left_out = Counter(_lack(study) for study in rows.taken)
    notes = [f"{n:,} of {len(files):,} reports {lack} are left out" for lack, n in left_out.items() if lack]
    return study_table(
        [study for study in rows.taken if not _lack(study)],
        folder=folder,
        release=OPEN_I_FILES,
        notes=notes,
        rejects=rows.rejects,
        needs_media=needs_media,
    )


def _lack(study: ChestStudy) -> str:
    if not study.images:
        return "without images"
    return "" if study.findings or study.impression else "without findings and impression"


def _of_open_i(file: Path, place: Place, images: Path) -> ChestStudy:
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise place.error(f"this is no XML file ({error}). Unpack it again.") from None
    named = root.find(".//uId")
    study_id = (named.get("id") if named is not None else None) or f"CXR{file.stem}"
    parts = {
        (part.get("Label") or "").upper(): " ".join("".join(part.itertext()).split())
        for part in root.iter("AbstractText")
    }
    shown = [image_file(images, f"{image.get('id')}.png", place, "parentImage") for image in root.iter("parentImage")]
    return ChestStudy(
        id=study_id,
        patient=patient_of(study_id, place, "uId"),
        images=tuple(shown),
        findings=parts.get("FINDINGS", ""),
        impression=parts.get("IMPRESSION", ""),
        place=place,
        finding=_finding(root),
    )


def _finding(root: ElementTree.Element) -> str | None:
    terms = {re.sub(r"\s+", " ", term.text or "").strip().lower() for term in root.iterfind(".//MeSH/major")} - {""}
    if not terms or terms == {_NOT_INDEXED}:
        return None
    return _NORMAL if terms == {_NORMAL} else "abnormal"
