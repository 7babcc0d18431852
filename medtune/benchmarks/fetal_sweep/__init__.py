"""Fetal sweeps, a benchmark on simulated ultrasound videos: the path of the probe and the place of the placenta.

The probe moves along the body, towards the head or towards the feet, and each path is swept equally often in both
directions. Three of the four questions (direction of the sweep, first and last part that is seen) need the order of the
frames; the fourth asks for the place of the placenta. (The source fetal_phantom, in contrast, simulates single images.)

The labels are drawn in equal shares from one stream of random numbers; size, position, scanner, gain and noise are
drawn from another stream. Neither therefore gives a hint of the other. No folder is needed. To change the number of
patients, give a folder that holds sweep.json: {"num_patients": 24}

Source: a simulation. The questions are ours, not a published benchmark's.
"""

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import get_args

import numpy as np

from medtune.benchmarks import example
from medtune.benchmarks.fetal_sweep.clip import FRAMES_PER_S, NUM_FRAMES, PARTS, Side, Truth, draw_patient, sweep
from medtune.benchmarks.simulators import in_equal_shares, settings, write_num_patients
from medtune.benchmarks.simulators.bmode_tissue import Patient
from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.media.videos.read import write_video
from medtune.data.raw.lettered_options import choice_question
from medtune.data.raw.source import MediaDraw, Source, SourceTable
from medtune.data.types import MediaRef, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict

_WAYS, _PARTS = ("towards the head", "towards the feet"), ("legs", "head", "chest", "abdomen")
_EXAMPLES = (
    example(1, "Which way does the probe move?", _WAYS[1], *_WAYS, task="sweep_direction", geometry="sector"),
    example(2, "Which part of the fetus is seen first?", "chest", *_PARTS, task="first_part", geometry="sector"),
)
NUM_PATIENTS = 140
SWEEPS = 2
SETTINGS_FILE = "sweep.json"
_LABELS, _NUISANCE = 0, 1
DIRECTION_TEXT = "Which way does the probe move?"
FIRST_TEXT = "Which part of the fetus is seen first?"
LAST_TEXT = "Which part of the fetus is seen last?"
PLACENTA_TEXT = "Where is the placenta?"
DIRECTIONS = ("towards the head", "towards the feet")
PLACENTA_WORDS = {"near": "near the probe", "far": "far from the probe"}


def benchmark() -> Benchmark:
    return Benchmark(
        title="Fetal sweeps (simulated)",
        version="1.1",
        licence="Apache-2.0",
        url="https://doi.org/10.1002/uog.24888",
        citation="medtune, a simulation of its own, after Salomon et al., Ultrasound Obstet Gynecol 59 (2022).",
        sources=("fetal_sweep",),
        facets=("task", "geometry"),
        render=render_choice,
        parsers={"robust": parse_choice, "strict": parse_choice_strict},
        metrics={"accuracy": accuracy(), "macro_f1": macro_f1()},
        examples=_EXAMPLES,
        allowed_changes=_allowed_changes,
    )


def _allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training video leave the answer to the question true.

    The probe moves at a right angle to the frames, and the fetus may lie in them in any direction, so mirroring or
    moving the frames does not change the path of the sweep. But a moved frame may no longer show the placenta.
    """
    if question.facets["task"] == "placenta_side":
        return frozenset({"mirror", "grey"})
    return ALL_CHANGES if question.facets["task"] in ("sweep_direction", "first_part", "last_part") else NO_CHANGES


def fetal_sweep() -> Source:
    """Simulated sweeps of the probe along a phantom fetus: short videos with known path, direction and placenta."""
    return Source(
        title="Fetal sweeps (simulated ultrasound video)",
        licence="Apache-2.0, made on the spot",
        url="https://doi.org/10.1002/uog.24888",
        provenance="synthetic",
        patient_unit="a simulated fetus on a simulated scanner",
        read=_read,
        write_settings=partial(write_num_patients, SETTINGS_FILE),
    )


def undrawn(folder: Path, *, seed: int, num_patients: int) -> SourceTable:
    """Returns all questions about the sweeps, which are still to be simulated."""
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    draws: dict[Path, MediaDraw] = {}
    for patient, truths in enumerate(draw_truth(num_patients, seed=seed)):
        name = f"patient{patient:04d}"
        geometry = _person(seed, patient).device.geometry
        made = partial(write_patient, folder / name, truths, seed=seed, patient=patient)
        draw = MediaDraw(folder / name, made, f"fetal_sweep, seed {seed}, patient {patient} of {num_patients}")
        for index, truth in enumerate(truths):
            media_id = f"{name}-{index}"
            path = folder / name / f"{media_id}.mkv"
            draws[path] = draw
            media[media_id] = (MediaRef(path, kind="video"),)
            questions += _questions(media_id, name, truth, geometry, seed=seed)
    return SourceTable(tuple(questions), media, draws=draws)


def write_patient(folder: Path, truths: Sequence[Truth], *, seed: int, patient: int) -> None:
    """Simulates one patient's sweeps and writes them as videos into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    person = _person(seed, patient)
    times_s = tuple(number / FRAMES_PER_S for number in range(NUM_FRAMES))
    for index, truth in enumerate(truths):
        frames_THW = sweep(person, truth, rng=np.random.default_rng([seed, _NUISANCE, patient, index]))
        path = folder / f"{folder.name}-{index}.mkv"
        write_video(path, np.repeat(frames_THW[..., None], 3, axis=-1), times_s, NUM_FRAMES / FRAMES_PER_S)


def draw_truth(num_patients: int, *, seed: int) -> list[tuple[Truth, ...]]:
    """Returns the labels of each patient's sweeps; each path, direction and placenta side occurs equally often."""
    rng = np.random.default_rng([seed, _LABELS])
    kinds = [Truth(first, last, side) for first, last in permutations(PARTS, 2) for side in get_args(Side)]
    drawn = in_equal_shares(kinds, num_patients * SWEEPS, rng)
    return [tuple(drawn[SWEEPS * patient : SWEEPS * (patient + 1)]) for patient in range(num_patients)]


def _questions(media_id: str, patient_id: str, truth: Truth, geometry: str, *, seed: int) -> list[Question]:
    is_upwards = PARTS.index(truth.last) < PARTS.index(truth.first)
    asked = (
        ("sweep_direction", DIRECTION_TEXT, DIRECTIONS[0 if is_upwards else 1], DIRECTIONS),
        ("first_part", FIRST_TEXT, truth.first, PARTS),
        ("last_part", LAST_TEXT, truth.last, PARTS),
        ("placenta_side", PLACENTA_TEXT, PLACENTA_WORDS[truth.placenta], tuple(PLACENTA_WORDS.values())),
    )
    return [
        choice_question(
            f"{media_id}-{task}",
            media_id=media_id,
            text=text,
            answer=answer,
            labels=labels,
            patient_id=patient_id,
            facets={"task": task, "geometry": geometry},
            seed=seed,
            num_options=len(labels),
        )
        for task, text, answer, labels in asked
    ]


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    count, _ = settings(root, SETTINGS_FILE, default=NUM_PATIENTS)
    return undrawn(scratch, seed=seed, num_patients=count)


def _person(seed: int, patient: int) -> Patient:
    return draw_patient(np.random.default_rng([seed, _NUISANCE, patient]))
