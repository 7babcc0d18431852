"""Simulated abdominal CTs in AbdomenAtlas's layout with known lesions, in subtypes of CTLesionVQA.

Everything that an answer depends on (which organ is ill, where, how bright, how large) is drawn in equal shares from
one stream of random numbers. Everything else (body, place and brightness of organs, scanner, noise) is drawn from
another stream, so that neither gives a hint of the other. Lesions measure 5 to 40 mm and differ by 10 to 80 HU from
their organ; the noise has a standard deviation of 15 HU.

No folder is needed. To change the number of patients, give a folder that holds phantom.json: {"num_patients": 24}
"""

from functools import partial
from pathlib import Path

import numpy as np

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import ORGANS, draw_patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import Findings, draw_findings, place_lesions
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.metadata_table import Row, truth
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.questions import Subject, questions
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.scan import scan, write
from medtune.benchmarks.simulators.settings import num_patients as patients_asked_for
from medtune.benchmarks.simulators.settings import write_num_patients
from medtune.data.media.volumes.formats.abdomen_atlas import MASKS, SCAN
from medtune.data.raw.source import Draw, Source, SourceTable
from medtune.data.types import MediaRef, Question

NUM_PATIENTS = 800
SETTINGS_FILE = "phantom.json"
_LABELS, _NUISANCE = 0, 1


def source() -> Source:
    """Returns the simulation as a source; it needs no folder."""
    return Source(
        title="CT phantom (simulated abdominal CT)",
        licence="Apache-2.0, made on the spot",
        url="https://github.com/Schuture/DeepTumorVQA",
        provenance="synthetic",
        patient_unit="a simulated patient with one scan",
        read=_read,
        write_settings=_write_settings,
    )


def _write_settings(folder: Path, patients: int) -> None:
    write_num_patients(folder / SETTINGS_FILE, patients)


def undrawn(folder: Path, *, seed: int, num_patients: int) -> SourceTable:
    """Returns all questions about the scans, which are still to be drawn."""
    asked: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    draws: dict[Path, Draw] = {}
    for number, found in enumerate(draw_findings(num_patients, np.random.default_rng([seed, _LABELS]))):
        name = f"PHANTOM_{number:08d}"
        rng = np.random.default_rng([seed, _NUISANCE, number])
        patient = draw_patient(rng)
        asked += questions(Subject(name, patient, seed), place_lesions(patient, found, rng))
        masks = tuple((organ, folder / name / MASKS / f"{organ}.nii.gz") for organ in sorted(ORGANS))
        media[name] = (MediaRef(folder / name / SCAN, kind="volume", masks=masks),)
        made = partial(write_patient, folder / name, found, seed=seed, number=number)
        draw = Draw(folder / name, made, f"ct_phantom, seed {seed}, patient {number} of {num_patients}")
        draws |= dict.fromkeys((folder / name / SCAN, *(path for _, path in masks)), draw)
    return SourceTable(tuple(asked), media, draws=draws)


def write_patient(folder: Path, found: Findings, *, seed: int, number: int) -> Row:
    """Draws one patient's scan with its masks into a folder, and returns the true findings."""
    rng = np.random.default_rng([seed, _NUISANCE, number])
    patient = draw_patient(rng)
    lesions = place_lesions(patient, found, rng)
    scanned = scan(patient, lesions, rng)
    write(folder, scanned)
    return truth(folder.name, patient, lesions, scanned)


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    number = NUM_PATIENTS if root is None else patients_asked_for(root / SETTINGS_FILE, default=NUM_PATIENTS)
    return undrawn(scratch, seed=seed, num_patients=number)
