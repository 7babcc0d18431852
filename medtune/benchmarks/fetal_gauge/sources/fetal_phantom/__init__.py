"""Simulated B-mode images of phantom fetuses with known truth, in the five tasks of Fetal-Gauge.

Everything that an answer depends on (plane, landmarks, orientation, mass) is drawn in equal shares from one stream of
random numbers. Everything else (size, position, scanner, gain, noise) is drawn from another stream. Neither therefore
gives a hint of the other.

No folder is needed. To change the number of patients, give a folder that holds phantom.json: {"num_patients": 24}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.frames import (
    Balance,
    PhantomMedia,
    Scene,
    diagnosis_questions,
    diagnosis_scene,
    draw_patient,
    grounding_question,
    loose_box,
    orientation_questions,
    orientation_scene,
    places,
    plane_questions,
    plane_scene,
    simulate_frame,
)
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import (
    FINDINGS,
    ORIENTATIONS,
    PLANES,
    MassFinding,
    Orientation,
    Plane,
)
from medtune.benchmarks.simulators import in_equal_shares, settings, write_num_patients
from medtune.benchmarks.simulators.bmode_device import pixels
from medtune.benchmarks.simulators.bmode_tissue import Patient
from medtune.data.raw.source import MediaDraw, Source, SourceTable
from medtune.data.types import MediaRef, Question

NUM_PATIENTS = 270
PLANE_FRAMES, ORIENTATION_FRAMES, DIAGNOSIS_FRAMES = 2, 2, 1
QUESTIONS_PER_FRAME = 4
SETTINGS_FILE = "phantom.json"
_LABELS, _NUISANCE, _BOXES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class FrameLabels:
    """The labels of one patient's frames, in the order of the frames."""

    planes: Sequence[tuple[Plane, bool]]  # For each frame of a plane, the plane and whether its landmarks are complete.
    orientations: Sequence[Orientation]  # For each frame of the whole fetus, how the fetus lies.
    findings: Sequence[MassFinding]  # For each frame of tissue, the diagnosis and the echo pattern.


def source() -> Source:
    """Returns the simulation as a source; it needs no folder."""
    return Source(
        title="Fetal phantom (simulated ultrasound)",
        licence="Apache-2.0, made on the spot",
        url="https://github.com/BioMedIA-MBZUAI/FETAL-GAUGE",
        provenance="synthetic",
        patient_unit="a simulated fetus on a simulated scanner",
        read=_read,
        write_settings=partial(write_num_patients, SETTINGS_FILE),
    )


def undrawn(folder: Path, *, seed: int, num_patients: int) -> SourceTable:
    """Returns all questions about the frames, which are still to be simulated.

    The options about red boxes are balanced over all patients, so that the scenes of all are laid out here.
    """
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    draws: dict[Path, MediaDraw] = {}
    balance = Balance()
    for patient, truth in enumerate(draw_truth(num_patients, seed=seed)):
        person = _person(seed, patient)
        grid = pixels(person.device)
        own = folder / _name(patient)
        made = partial(write_patient, own, truth, seed=seed, patient=patient)
        draw = MediaDraw(own, made, f"fetal_phantom, seed {seed}, patient {patient} of {num_patients}")
        for index, (scene, _, subject, asked) in enumerate(_views(person, truth, patient=patient, seed=seed)):
            path = own / f"{subject.media_id}.png"
            draws[path] = draw
            media[subject.media_id] = (MediaRef(path),)
            questions += asked
            wanted = QUESTIONS_PER_FRAME - len(asked)
            if wanted == 0:
                continue
            rng = np.random.default_rng([seed, _BOXES, patient, index])
            shown = places(scene, grid)
            for number, name in enumerate(balance.structures(shown, wanted=wanted, rng=rng)):
                box = loose_box(shown.masks_HW[name], rng)
                inset = subject._replace(media_id=f"{subject.media_id}-box{number}")
                media[inset.media_id] = (MediaRef(path, (box,)),)
                options = balance.options(name, rng)
                questions.append(grounding_question(inset, name, box, options=options, seed=seed))
    return SourceTable(tuple(questions), media, draws=draws)


def write_patient(folder: Path, truth: FrameLabels, *, seed: int, patient: int) -> None:
    """Simulates one patient's frames and writes them as PNG files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    person = _person(seed, patient)
    for view in _views(person, truth, patient=patient, seed=seed):
        grey_HW = simulate_frame(person, view.scene, view.rng)
        path = folder / f"{view.subject.media_id}.png"
        PIL.Image.fromarray(grey_HW).save(path, compress_level=1)


def draw_truth(num_patients: int, *, seed: int) -> list[FrameLabels]:
    """Returns the labels of all patients. All labels occur equally often, and so do complete and incomplete planes."""
    rng = np.random.default_rng([seed, _LABELS])
    cuts = [(plane, is_complete) for plane in PLANES for is_complete in (True, False)]
    planes = in_equal_shares(cuts, num_patients * PLANE_FRAMES, rng)
    orientations = in_equal_shares(ORIENTATIONS, num_patients * ORIENTATION_FRAMES, rng)
    findings = in_equal_shares(FINDINGS, num_patients * DIAGNOSIS_FRAMES, rng)
    return [
        FrameLabels(
            planes[PLANE_FRAMES * i : PLANE_FRAMES * (i + 1)],
            orientations[ORIENTATION_FRAMES * i : ORIENTATION_FRAMES * (i + 1)],
            findings[DIAGNOSIS_FRAMES * i : DIAGNOSIS_FRAMES * (i + 1)],
        )
        for i in range(num_patients)
    ]


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    count, _ = settings(root, SETTINGS_FILE, default=NUM_PATIENTS)
    return undrawn(scratch, seed=seed, num_patients=count)


class _View(NamedTuple):
    scene: Scene
    rng: np.random.Generator
    subject: PhantomMedia
    asked: list[Question]


def _name(patient: int) -> str:
    return f"patient{patient:04d}"


def _person(seed: int, patient: int) -> Patient:
    return draw_patient(np.random.default_rng([seed, _NUISANCE, patient]))


def _views(person: Patient, truth: FrameLabels, *, patient: int, seed: int) -> Iterator[_View]:
    name = _name(patient)

    def new_frame(index: int, plane: str) -> tuple[np.random.Generator, PhantomMedia]:
        facets = {"plane": plane, "geometry": person.device.geometry}
        return np.random.default_rng([seed, _NUISANCE, patient, index]), PhantomMedia(f"{name}-{index}", name, facets)

    for index, (plane, is_complete) in enumerate(truth.planes):
        rng, subject = new_frame(index, plane)
        scene = plane_scene(person, plane, is_complete=is_complete, rng=rng)
        yield _View(scene, rng, subject, plane_questions(subject, plane, is_complete=is_complete, seed=seed))
    for index, orientation in enumerate(truth.orientations, start=len(truth.planes)):
        rng, subject = new_frame(index, "whole fetus")
        scene = orientation_scene(person, orientation, rng=rng)
        yield _View(scene, rng, subject, orientation_questions(subject, orientation, seed=seed))
    for index, finding in enumerate(truth.findings, start=len(truth.planes) + len(truth.orientations)):
        rng, subject = new_frame(index, "tissue")
        scene = diagnosis_scene(person, finding, rng=rng)
        yield _View(scene, rng, subject, diagnosis_questions(subject, finding, seed=seed))
