"""Turns the studies of every release of IU X-ray into questions, one for each report, and counts repeated reports."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from medtune.benchmarks.iu_xray.reports import FINDINGS, IMPRESSION, REPORT
from medtune.data.raw.source import Place, Reject, SourceTable, missing_media, read_rows
from medtune.data.types import MediaRef, Question, Split

OPEN_I = "https://openi.nlm.nih.gov/faq"
LICENCE = "contradictory statements (public domain; CC BY-NC-ND 4.0): ask the National Library of Medicine"
PATIENT_UNIT = "the number behind CXR in the study's id; every patient has one study"
R2GEN, MEDEVALKIT, OPEN_I_FILES = "R2Gen", "MedEvalKit (R2Gen's val)", "Open-i"
OTHER_SPLIT, OTHER_FILE = "another split than R2Gen's", "another file than MedEvalKit's"
IN_TRAIN = "report_in_train"
TEXTS = {
    FINDINGS: "These X-ray images of the chest belong to one study. What do they show?",
    IMPRESSION: "These X-ray images of the chest belong to one study. What do you conclude from them?",
    REPORT: "These X-ray images of the chest belong to one study. What do they show, and what do you conclude?",
}
"""The question of each task."""
_PATIENT = re.compile(r"CXR\d+")


@dataclass(frozen=True, slots=True)
class ChestStudy:
    """One study: its images and the parts of its report."""

    id: str
    patient: str  # What its patient is named in the files, e.g. "CXR12".
    images: tuple[Path, ...]  # The image files, in the order of the files.
    findings: str  # What the report describes; "" if it has no such part.
    impression: str  # What the report concludes; "" if it has no such part.
    place: Place  # The place of the study in the files, for rejects.
    split: Split | None = None  # The split that the release brings; None where it brings none.
    finding: str | None = None  # "normal" or "abnormal", where the release says so.

    @property
    def task(self) -> str:
        """The part of a report that is asked for: all that the study's report has."""
        return REPORT if self.findings and self.impression else FINDINGS if self.findings else IMPRESSION

    @property
    def report(self) -> str:
        """The report; its parts have headings if there are both."""
        both = f"Findings: {self.findings} Impression: {self.impression}"
        return both if self.task == REPORT else self.findings or self.impression


def study_table(
    studies: Sequence[ChestStudy],
    *,
    folder: Path,
    release: str,
    notes: Iterable[str],
    rejects: Iterable[Reject],
    needs_media: bool,
) -> SourceTable:
    """Returns the table of a release, whose name is a facet of every question; notes say what was left out."""

    def checked(study: ChestStudy) -> ChestStudy:
        absent = next((path for path in study.images if not path.is_file()), None) if needs_media else None
        if absent is not None:
            raise study.place.error("there is no such image file. Copy it, or list what to fetch with --list-missing.",
                                    media=absent)  # fmt: skip
        return study

    kept = read_rows(studies, checked)
    learnt = {study.report for study in kept.taken if study.split == "train"}
    lost = (*rejects, *kept.rejects)
    return SourceTable(
        [_question(study, release, learnt) for study in kept.taken],
        {study.id: tuple(map(MediaRef, study.images)) for study in kept.taken},
        (*notes, *repeat_notes(kept.taken)),
        lost,
        missing_media(lost, folder, fetch=OPEN_I),
    )


def repeat_notes(studies: Sequence[ChestStudy]) -> tuple[str, ...]:
    """Returns the note on test reports that stand word for word in train or before in test; none without a split."""
    learnt = {study.report for study in studies if study.split == "train"}
    test = [study.report for study in studies if study.split == "test"]
    if not learnt or not test:
        return ()
    found = sum(report in learnt for report in test)
    return (
        f"{found:,} of {len(test):,} test reports stand word for word in train, and {len(test) - len(set(test)):,} "
        "repeat another test report",
    )


def patient_of(name: str, place: Place, field: str) -> str:
    """Returns the patient that the name of a study or of an image begins with."""
    found = _PATIENT.match(name)
    if found is None:
        raise place.error("wanted a name that begins with CXR and the patient's number", field=field)
    return found[0]


def image_file(folder: Path, written: object, place: Place, field: str) -> Path:
    path = PurePosixPath(written) if isinstance(written, str) else PurePosixPath()
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise place.error("wanted the path of an image, relative to the folder and inside of it", field=field)
    return folder / path


def listed_images(folder: Path, written: object, place: Place, field: str) -> tuple[Path, ...]:
    if not isinstance(written, list) or not written:
        raise place.error("wanted a list with the path of at least one image", field=field)
    return tuple(image_file(folder, each, place, field) for each in written)


def told(row: object, field: str, place: Place) -> str:
    """Returns a text of a row, without blanks at its ends."""
    if not isinstance(row, dict):
        raise place.error("wanted an object with the fields of a study")
    if field not in row:
        raise place.error(f"the field is missing; there are {', '.join(map(repr, row))}", field=field)
    if not isinstance(row[field], str):
        raise place.error("wanted a text", field=field)
    return str(row[field]).strip()


def _question(study: ChestStudy, release: str, learnt: set[str]) -> Question:
    facets = {"task": study.task, "release": release}
    if learnt and study.split in ("val", "test"):
        facets[IN_TRAIN] = "yes" if study.report in learnt else "no"
    if study.finding:
        facets["finding"] = study.finding
    return Question(
        id=study.id,
        media_id=study.id,
        text=TEXTS[study.task],
        options=(),
        answer=study.report,
        answer_kind="text",
        patient_id=study.patient,
        facets=facets,
        split=study.split,
    )
