"""IU X-ray as the National Library of Medicine gives it: one XML file for each report, and the PNG files.

    NLMCXR_reports/ecgen-radiology/*.xml     the reports, also directly in one of the two folders or in ecgen-radiology
    NLMCXR_png/*.png                         the images, named after the ids of the parentImage elements

The files bring no split, so that medtune divides them by patient. A report without findings and impression, or without
images, is left out and counted.

Source: Open-i, NLMCXR_reports.tgz and NLMCXR_png.tgz; Demner-Fushman et al. 2016, doi:10.1093/jamia/ocv080.
"""

import re
from collections import Counter
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from medtune.benchmarks.iu_xray.studies import (
    LICENCE,
    OPEN_I,
    OPEN_I_FILES,
    PATIENT_UNIT,
    Study,
    image_file,
    patient_of,
    study_table,
)
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.row_errors import Place, read_rows
from medtune.data.raw.source import Source, SourceTable

_REPORTS = ("NLMCXR_reports/ecgen-radiology", "NLMCXR_reports", "ecgen-radiology")
_IMAGES = "NLMCXR_png"
_NORMAL, _NOT_INDEXED = "normal", "no indexing"


def source() -> Source:
    return Source(
        title="IU X-ray, the files of Open-i",
        licence=LICENCE,
        url=OPEN_I,
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=_read,
        read_questions=partial(_read, needs_media=False),
    )


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{_REPORTS[0]} and {_IMAGES}")
    reports = next((folder / name for name in _REPORTS if any((folder / name).glob("*.xml"))), None)
    if reports is None:
        raise FileNotFoundError(
            f"{folder}: wanted reports (*.xml) in {', '.join(_REPORTS)}; there are none. Unpack NLMCXR_reports.tgz."
        )
    files = sorted(reports.glob("*.xml"), key=lambda path: (len(path.stem), path.stem))
    numbered = ((file, Place(str(reports.relative_to(folder)), number)) for number, file in enumerate(files, start=1))
    rows = read_rows(numbered, lambda row: _study(row[0], row[1], folder / _IMAGES))
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


def _lack(study: Study) -> str:
    if not study.images:
        return "without images"
    return "" if study.findings or study.impression else "without findings and impression"


def _study(file: Path, place: Place, images: Path) -> Study:
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
    return Study(
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
