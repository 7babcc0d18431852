"""PBF-US1: questions about the standard plane, made from ultrasound frames of a fetal phantom.

The layouts of the folder of frames are described in medtune/benchmarks/public_sets/sets/pbf_us1.py.

Source: NatalIA PBF-US1, Zenodo 14193949.
"""

from __future__ import annotations

from pathlib import Path

from medtune.benchmarks.public_sets.sets.pbf_us1 import (
    PATIENT_UNIT,
    STANDS_FOR_PATIENT,
    TITLE,
    read_frames,
    write_flat,
)
from medtune.data.raw.choices import choice_question
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import Source, SourceTable, missing_media
from medtune.data.types import MediaRef, Question

PLANES = {
    "Biparietal standard plane": "biparietal standard plane",
    "Abdominal standard plane": "abdominal standard plane",
    "Heart standard plane": "heart standard plane",
    "Spine standard plane": "spine standard plane",
    "Femur standard plane": "femur standard plane",
    "No plane": "no standard plane",
}
# Fetal-Gauge's score of random answers to plane identification, 0.26, fits four options.
NUM_OPTIONS = 4


def source() -> Source:
    """Returns the source."""
    return Source(
        title=TITLE,
        licence="CC BY 4.0",
        url="https://zenodo.org/records/14193949",
        provenance="reconstruction",
        patient_unit=PATIENT_UNIT,
        read=_read,
        write_example=write_flat,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns the questions of one task, plane_identification, each with four of the six planes as options."""
    folder = raw_folder(root, holds="PBF-US1 frames and their table")
    table = read_frames(folder)
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    for frame in table.frames:
        media[frame.name] = (MediaRef(frame.path),)
        question = choice_question(
            f"{frame.name} plane_identification",
            media_id=frame.name,
            text="Which standard plane does this ultrasound image show?",
            answer=PLANES[frame.labels["plane"]],
            labels=tuple(PLANES.values()),
            patient_id=frame.patient or frame.name,
            facets={"task": "plane_identification", "phantom": "yes", **frame.facets},
            seed=seed,
            num_options=NUM_OPTIONS,
        )
        questions.append(question)
    missing = missing_media(table.rejects, folder, fetch=source().url)
    unit = " or ".join(sorted({"image" if frame.patient is None else STANDS_FOR_PATIENT for frame in table.frames}))
    return SourceTable(tuple(questions), media, table.notes, table.rejects, missing, stands_for_patient=unit)
