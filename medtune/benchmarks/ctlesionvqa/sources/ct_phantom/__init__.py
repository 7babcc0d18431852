"""Simulated abdominal CTs in AbdomenAtlas's layout with known lesions, in subtypes of CTLesionVQA.

Everything that an answer depends on (which organ is ill, where, how bright, how large) is drawn in equal shares from
one stream of random numbers. Everything else (body, place and brightness of organs, scanner, noise) is drawn from
another stream, so that neither gives a hint of the other. Lesions measure 5 to 40 mm and differ by 10 to 80 HU from
their organ; the noise has a standard deviation of 15 HU.

No folder is needed. To change the number of patients, give a folder that holds phantom.json: {"num_patients": 24}
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import ORGANS, draw_patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import draw_findings, place_lesions
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.metadata_table import truth, write_table
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.questions import Subject, questions
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.scan import scan, write
from medtune.benchmarks.simulators.settings import num_patients as patients_asked_for
from medtune.benchmarks.simulators.settings import write_num_patients
from medtune.data.media.volumes.formats.abdomen_atlas import MASKS, SCAN
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import MediaRef, Question

NUM_PATIENTS = 800
SETTINGS_FILE = "phantom.json"
TABLE = "metadata.csv"
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
        write_example=lambda root: _write_settings(root, 12),
        write_settings=_write_settings,
    )


def _write_settings(folder: Path, patients: int) -> None:
    write_num_patients(folder / SETTINGS_FILE, patients)


def simulate(folder: Path, *, seed: int, num_patients: int = NUM_PATIENTS) -> SourceTable:
    """Writes the scans, masks and true findings of `num_patients` patients into `folder`, and returns all questions."""
    asked: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    rows = []
    findings = draw_findings(num_patients, np.random.default_rng([seed, _LABELS]))
    for number, found in enumerate(findings):
        name = f"PHANTOM_{number:08d}"
        rng = np.random.default_rng([seed, _NUISANCE, number])
        patient = draw_patient(rng)
        lesions = place_lesions(patient, found, rng)
        scanned = scan(patient, lesions, rng)
        write(folder / name, scanned)
        rows.append(truth(name, patient, lesions, scanned))
        asked += questions(Subject(name, patient, seed), lesions)
        masks = tuple((organ, folder / name / MASKS / f"{organ}.nii.gz") for organ in sorted(ORGANS))
        media[name] = (MediaRef(folder / name / SCAN, kind="volume", masks=masks),)
    write_table(folder / TABLE, rows)
    return SourceTable(tuple(asked), media)


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    number = NUM_PATIENTS if root is None else patients_asked_for(root / SETTINGS_FILE, default=NUM_PATIENTS)
    return simulate(scratch, seed=seed, num_patients=number)
