"""Has a checkpoint proven before its first run on a machine, and remembers the proof in the user's cache folder."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from medtune.eval.results.doctor_file import DoctorFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.models.weights.assets import cache_folder
from medtune.trainer.devices.ranks import highest
from medtune.trainer.doctor.examine import examine
from medtune.trainer.doctor.fingerprint import weights_hash
from medtune.trainer.doctor.patient import Patient, patient_of
from medtune.trainer.doctor.table import doctor_table
from medtune.trainer.experiment.environment import environment
from medtune.trainer.experiment.experiment import Experiment
from medtune.version import __version__


def proven_on_first_run(experiment: Experiment, *, resumed: bool) -> bool:
    """Returns whether a run may go on: its checkpoint is proven here, is proven now, or needs no proof.

    Asked for a proof are the weights of a checkpoint that was downloaded or that model.weights names. Models behind an
    endpoint, the tiny random models of tests, and pocket's own weights, which medtune's tests prove, are not asked.
    Rank 0 makes the proof while the others wait.

    Args:
        experiment: The run.
        resumed: Whether the run is continued; it is then asked only if its proof failed before.
    """
    done = resumed and not _failed_before(experiment)
    failed = True
    try:
        failed = experiment.rank == 0 and not done and not _proven(experiment)
    finally:
        # After an error on rank 0 too, or the others would wait for it forever.
        failures = highest(int(failed))
    return failures == 0


def _proven(experiment: Experiment) -> bool:
    recipe = experiment.recipe
    if recipe.model.endpoint is not None:
        return True
    patient = patient_of(experiment)
    if patient.weights is None or patient.entry.twin or patient.folder is None:
        return True
    path = experiment.folder.doctor
    record = proof_of(patient, say=experiment.say)
    write_document(path, record)
    if not record.passed:
        experiment.say(f"the run stops here; {path} holds the table. --no-doctor runs without the proof")
    return record.passed


def proof_of(patient: Patient, *, say: Callable[[str], None]) -> DoctorFile:
    """Returns the record of a checkpoint that was proven here before, or else of the proof that is made now.

    Args:
        patient: The recipe with its checkpoint.
        say: Prints what is done and found.
    """
    kept = kept_record(patient)
    if kept.is_file() and (record := read_json(kept, DoctorFile)).passed:
        say(f"doctor: {record.headline()}")
        return record
    say("doctor: the first run of this checkpoint here; comparing it with plain transformers and peft")
    record = examine(patient)
    keep(patient, record)
    say(doctor_table(record))
    return record


def _failed_before(experiment: Experiment) -> bool:
    path = experiment.folder.doctor
    return path.is_file() and not read_json(path, DoctorFile).passed


def keep(patient: Patient, record: DoctorFile) -> None:
    """Writes a record into the user's cache folder, where the first run of the checkpoint looks for it."""
    path = kept_record(patient)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_document(path, record)


def kept_record(patient: Patient) -> Path:
    """Returns the path of the record of a checkpoint, for this device, these versions and these settings."""
    recipe = patient.recipe
    seen = environment([])
    about = {
        "weights": "" if patient.folder is None else weights_hash(patient.folder),
        "medtune": [__version__, seen["git_commit"]],
        "packages": seen["packages"],
        "devices": seen["devices"],
        "model": repr(replace(recipe.model, weights=None)),
        "precision": recipe.train.precision,
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "doctor" / f"{recipe.model.name}-{digest[:16]}.json"
