"""PBF-US1: questions about the standard plane, made from ultrasound frames of a fetal phantom.

The layouts of the folder of frames are described in medtune/benchmarks/public_sets/pbf_us1.py.

Source: NatalIA PBF-US1, Zenodo 14193949.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.public_sets.pbf_us1 import FLAT, PATIENT_UNIT, STANDS_FOR_PATIENT, TITLE, read_frames
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.lettered_options import choice_question
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
        write_example=write_example,
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


def write_example(folder: Path) -> None:
    """Writes four synthetic frames of each class as `FLAT` lists them; the angle of their stripes shows the class."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [",".join(("file", "class", "value"))]
    for value, plane in enumerate(PLANES):
        for number in range(4):
            _write_frame(folder / f"frame-{value}-{number}.png", value, number)
            lines.append(f"frame-{value}-{number}.png,{plane},{value}")
    (folder / FLAT).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_frame(path: Path, value: int, number: int) -> None:
    y_HW, x_HW = np.mgrid[:48, :64]
    generator = np.random.default_rng([value, number])
    stripes_HW = np.sin((x_HW * np.cos(value) + y_HW * np.sin(value)) / 3 + number)
    pixels_HW = (generator.integers(60, 120, (48, 64)) + 40 * stripes_HW) * (np.abs(x_HW - 32) < 8 + y_HW)
    PIL.Image.fromarray(pixels_HW.astype(np.uint8)).save(path)
