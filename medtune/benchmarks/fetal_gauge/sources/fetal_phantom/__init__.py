"""Simulated B-mode images of phantom fetuses with known truth, in the five tasks of Fetal-Gauge.

Everything that an answer depends on (plane, landmarks, orientation, mass) is drawn in equal shares from one stream of
random numbers. Everything else (size, position, scanner, gain, noise) is drawn from another stream. Neither therefore
gives a hint of the other.

No folder is needed. To change the number of patients, give a folder that holds phantom.json: {"num_patients": 24}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import PIL.Image

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.body_and_mass import (
    FINDINGS,
    ORIENTATIONS,
    Finding,
    Orientation,
)
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.frames import (
    Frame,
    diagnosis_frame,
    draw_patient,
    orientation_frame,
    plane_frame,
)
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import PLANES, Plane
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.questions import (
    Balance,
    Subject,
    diagnosis_questions,
    grounding_question,
    loose_box,
    orientation_questions,
    plane_questions,
)
from medtune.benchmarks.simulators.settings import num_patients as patients_asked_for
from medtune.benchmarks.simulators.settings import write_num_patients
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import MediaRef, Question

NUM_PATIENTS = 270
PLANE_FRAMES, ORIENTATION_FRAMES, DIAGNOSIS_FRAMES = 2, 2, 1
QUESTIONS_PER_FRAME = 4
SETTINGS_FILE = "phantom.json"
_LABELS, _NUISANCE, _BOXES = 0, 1, 2

Label = TypeVar("Label")


@dataclass(frozen=True, slots=True)
class Truth:
    """The labels of one patient's frames, in the order of the frames.

    Attributes:
        planes: For each frame of a plane, the plane and whether its landmarks are complete.
        orientations: For each frame of the whole fetus, how the fetus lies.
        findings: For each frame of tissue, the diagnosis and the echo pattern.
    """

    planes: Sequence[tuple[Plane, bool]]
    orientations: Sequence[Orientation]
    findings: Sequence[Finding]


def source() -> Source:
    """Returns the simulation as a source; it needs no folder."""
    return Source(
        title="Fetal phantom (simulated ultrasound)",
        licence="Apache-2.0, made on the spot",
        url="https://github.com/BioMedIA-MBZUAI/FETAL-GAUGE",
        provenance="synthetic",
        patient_unit="a simulated fetus on a simulated scanner",
        read=_read,
        write_example=lambda root: _write_settings(root, 12),
        write_settings=_write_settings,
    )


def _write_settings(folder: Path, patients: int) -> None:
    write_num_patients(folder / SETTINGS_FILE, patients)


def simulate(scratch: Path, *, seed: int, num_patients: int = NUM_PATIENTS) -> SourceTable:
    """Writes the frames of `num_patients` phantom patients as PNG files into `scratch` and returns all questions."""
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    balance = Balance()
    for patient, truth in enumerate(draw_truth(num_patients, seed=seed)):
        for index, (frame, subject, asked) in enumerate(_frames(truth, patient=patient, seed=seed)):
            path = scratch / f"{subject.media_id}.png"
            PIL.Image.fromarray(frame.grey_HW).convert("RGB").save(path, compress_level=1)
            media[subject.media_id] = (MediaRef(path),)
            questions += asked
            rng = np.random.default_rng([seed, _BOXES, patient, index])
            wanted = QUESTIONS_PER_FRAME - len(asked)
            for number, name in enumerate(balance.structures(frame, wanted=wanted, rng=rng)):
                box = loose_box(frame.masks_HW[name], rng)
                inset = subject._replace(media_id=f"{subject.media_id}-box{number}")
                media[inset.media_id] = (MediaRef(path, (box,)),)
                options = balance.options(name, rng)
                questions.append(grounding_question(inset, name, box, options=options, seed=seed))
    return SourceTable(tuple(questions), media)


def draw_truth(num_patients: int, *, seed: int) -> list[Truth]:
    """Returns the labels of all patients. All labels occur equally often, and so do complete and incomplete planes."""
    rng = np.random.default_rng([seed, _LABELS])
    cuts = [(plane, is_complete) for plane in PLANES for is_complete in (True, False)]
    planes = _in_equal_shares(cuts, num_patients * PLANE_FRAMES, rng)
    orientations = _in_equal_shares(ORIENTATIONS, num_patients * ORIENTATION_FRAMES, rng)
    findings = _in_equal_shares(FINDINGS, num_patients * DIAGNOSIS_FRAMES, rng)
    return [
        Truth(
            planes[PLANE_FRAMES * i : PLANE_FRAMES * (i + 1)],
            orientations[ORIENTATION_FRAMES * i : ORIENTATION_FRAMES * (i + 1)],
            findings[DIAGNOSIS_FRAMES * i : DIAGNOSIS_FRAMES * (i + 1)],
        )
        for i in range(num_patients)
    ]


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    num_patients = NUM_PATIENTS if root is None else patients_asked_for(root / SETTINGS_FILE, default=NUM_PATIENTS)
    return simulate(scratch, seed=seed, num_patients=num_patients)


def _frames(truth: Truth, *, patient: int, seed: int) -> list[tuple[Frame, Subject, list[Question]]]:
    """Returns a patient's frames, each with its facets and with its questions that need no red box."""
    person = draw_patient(np.random.default_rng([seed, _NUISANCE, patient]))
    name = f"patient{patient:04d}"
    made: list[tuple[Frame, Subject, list[Question]]] = []

    def new_frame(plane: str) -> tuple[np.random.Generator, Subject]:
        index = len(made)
        facets = {"plane": plane, "geometry": person.device.geometry}
        return np.random.default_rng([seed, _NUISANCE, patient, index]), Subject(f"{name}-{index}", name, facets)

    for plane, is_complete in truth.planes:
        rng, subject = new_frame(plane)
        frame = plane_frame(person, plane, is_complete=is_complete, rng=rng)
        made.append((frame, subject, plane_questions(subject, plane, is_complete=is_complete, seed=seed)))
    for orientation in truth.orientations:
        rng, subject = new_frame("whole fetus")
        frame = orientation_frame(person, orientation, rng=rng)
        made.append((frame, subject, orientation_questions(subject, orientation, seed=seed)))
    for finding in truth.findings:
        rng, subject = new_frame("tissue")
        frame = diagnosis_frame(person, finding, rng=rng)
        made.append((frame, subject, diagnosis_questions(subject, finding, seed=seed)))
    return made


def _in_equal_shares(labels: Sequence[Label], count: int, rng: np.random.Generator) -> list[Label]:
    """Returns `count` labels in random order; the numbers of any two different labels differ by at most one."""
    order = np.resize(rng.permutation(len(labels)), count)
    return [labels[i] for i in rng.permutation(order)]
