"""Makes the questions of Fetal-Gauge's five tasks about simulated frames, with all abbreviations written out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.body_and_mass import (
    DIAGNOSES,
    Diagnosis,
    Finding,
    Orientation,
)
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.frames import Places
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import Plane
from medtune.benchmarks.simulators.bmode.device import IMAGE_SIZE
from medtune.benchmarks.simulators.bmode.shapes import Mask
from medtune.data.media.masks import box_size, outer_box
from medtune.data.raw.lettered_options import choice_question
from medtune.data.types import Box, Question

PLANE_TEXT = "Which plane of the fetus is shown?"
COMPLETENESS_TEXT = "Does this view show all its landmarks?"
ORIENTATION_TEXT = "How does the fetus lie?"
PRESENTATION_TEXT = "Which presentation is this?"
NEAR_SIDE_TEXT = "Which side is nearer to the probe?"
DIAGNOSIS_TEXT = "What is the clinical diagnosis?"
MARGIN_TEXT = "How is the margin of the mass?"
ECHO_TEXT = "Which echo pattern does the mass have?"
POSTERIOR_TEXT = "What lies behind the mass?"
GROUNDING_TEXT = "What does the red box show?"

PLANE_WORDS: Mapping[Plane, str] = {
    "head": "head circumference",
    "abdomen": "abdominal circumference",
    "femur": "femur length",
    "heart": "four-chamber heart",
}
COMPLETE, INCOMPLETE = "complete", "incomplete"
ORIENTATION_WORDS: Mapping[Orientation, str] = {
    "hdvb": "head down, back near",
    "hdvf": "head down, front near",
    "huvb": "head up, back near",
    "huvf": "head up, front near",
}
PRESENTATIONS = ("cephalic", "breech")
NEAR_SIDES = ("back", "front")
NO_MASS = "no mass"
MARGINS: Mapping[Diagnosis, str] = {"normal": NO_MASS, "benign": "smooth", "malignant": "spiculated"}
POSTERIOR: Mapping[Diagnosis, str] = {"normal": NO_MASS, "benign": "enhancement", "malignant": "shadow"}
ECHO_PATTERNS = (NO_MASS, "anechoic", "uniform", "heterogeneous")
# Wrong options come from the same list as the answer, so that the size of a box says little about the answer.
SMALLER = (
    "cavum septi pellucidi", "choroid plexus", "stomach bubble", "umbilical vein", "kidney", "spine", "femur", "limb",
)  # fmt: skip
LARGER = ("head", "midline falx", "abdomen", "thigh", "heart", "thorax", "trunk")
STRUCTURES = (*SMALLER, *LARGER)
MIN_WHOLE = 0.75
NUM_OPTIONS = 4
_MARGIN_PX = 6


class Subject(NamedTuple):
    """A media item about which questions are asked, its patient, and the facets that all its questions share."""

    media_id: str
    patient_id: str
    facets: Mapping[str, str]


def plane_questions(subject: Subject, plane: Plane, *, is_complete: bool, seed: int) -> list[Question]:
    """Returns the questions which plane a frame shows (plane identification) and whether it is complete."""
    completeness = COMPLETE if is_complete else INCOMPLETE
    return [
        _question(subject, "plane_identification", "", PLANE_TEXT, PLANE_WORDS[plane], PLANE_WORDS.values(), seed),
        _question(subject, "view_completeness", "", COMPLETENESS_TEXT, completeness, (COMPLETE, INCOMPLETE), seed),
    ]


def orientation_questions(subject: Subject, orientation: Orientation, *, seed: int) -> list[Question]:
    """Returns the questions how the fetus lies, what its presentation is, and which side of it is near the probe.

    The first question covers the other two: its options are the terms hdvb, hdvf, huvb and huvf, written out.
    """
    words, task = ORIENTATION_WORDS[orientation], "fetal_orientation"
    presentation = PRESENTATIONS[0] if orientation[1] == "d" else PRESENTATIONS[1]
    near = NEAR_SIDES[0] if orientation[3] == "b" else NEAR_SIDES[1]
    return [
        _question(subject, task, "orientation", ORIENTATION_TEXT, words, ORIENTATION_WORDS.values(), seed),
        _question(subject, task, "presentation", PRESENTATION_TEXT, presentation, PRESENTATIONS, seed),
        _question(subject, task, "near side", NEAR_SIDE_TEXT, near, NEAR_SIDES, seed),
    ]


def diagnosis_questions(subject: Subject, finding: Finding, *, seed: int) -> list[Question]:
    """Returns the questions about the diagnosis and about margin, echoes and posterior features of the mass."""
    task, diagnosis = "clinical_diagnosis", finding.diagnosis
    return [
        _question(subject, task, "diagnosis", DIAGNOSIS_TEXT, diagnosis, DIAGNOSES, seed),
        _question(subject, task, "margin", MARGIN_TEXT, MARGINS[diagnosis], MARGINS.values(), seed),
        _question(subject, task, "echo pattern", ECHO_TEXT, finding.echo, ECHO_PATTERNS, seed),
        _question(subject, task, "posterior features", POSTERIOR_TEXT, POSTERIOR[diagnosis], POSTERIOR.values(), seed),
    ]


class Balance:
    """Balances the options of grounding questions: each option is the right one in a quarter of the cases.

    An option by itself therefore does not tell whether it is likely to be right. The answers themselves cannot be made
    equally frequent, because some frames show only two structures, so the wrong options are chosen to fit them.
    """

    def __init__(self) -> None:
        self._boxed: Counter[str] = Counter()
        self._distracting: Counter[str] = Counter()

    def structures(self, shown: Places, *, wanted: int, rng: np.random.Generator) -> list[str]:
        """Returns the structures of a frame to draw boxes around: those that had the fewest boxes so far.

        Args:
            shown: The places of the frame's structures.
            wanted: The largest number of structures to return.
            rng: The source of random numbers, which decides between structures with equally many boxes.
        """
        whole = [name for name in STRUCTURES if shown.whole.get(name, 0.0) >= MIN_WHOLE]
        order = rng.permutation(len(whole))
        chosen = sorted((whole[i] for i in order), key=lambda name: self._boxed[name])[:wanted]
        self._boxed.update(chosen)
        return chosen

    def options(self, name: str, rng: np.random.Generator) -> list[str]:
        """Returns the boxed structure and the structures of similar size that were wrong options too rarely so far."""
        half = [label for label in (SMALLER if name in SMALLER else LARGER) if label != name]
        others = [half[i] for i in rng.permutation(len(half))]
        wanted = NUM_OPTIONS - 1
        seldom = sorted(others, key=lambda label: self._distracting[label] - wanted * self._boxed[label])[:wanted]
        self._distracting.update(seldom)
        return [name, *seldom]


def grounding_question(subject: Subject, name: str, box: Box, *, options: Sequence[str], seed: int) -> Question:
    """Returns the question what a red box represents; the answer is the structure `name`."""
    size = box_size(box, IMAGE_SIZE, IMAGE_SIZE)
    boxed = subject._replace(facets={**subject.facets, "box_size": size})
    return _question(boxed, "visual_grounding", "", GROUNDING_TEXT, name, options, seed)


def loose_box(mask_HW: Mask, rng: np.random.Generator) -> Box:
    """Returns a box around the mask; each side lies up to a few pixels outside the mask, but within the image."""
    box = outer_box(mask_HW)
    if box is None:
        raise ValueError("wanted a structure to box, its mask is empty.")
    left, up, right, down = (int(px) for px in rng.integers(0, _MARGIN_PX + 1, size=4))
    height, width = mask_HW.shape
    return Box(max(box.x0 - left, 0), max(box.y0 - up, 0), min(box.x1 + right, width), min(box.y1 + down, height))


def _question(
    subject: Subject, task: str, subtype: str, text: str, answer: str, labels: Iterable[str], seed: int
) -> Question:
    return choice_question(
        f"{subject.media_id}-{'-'.join(part.replace(' ', '_') for part in (task, subtype) if part)}",
        media_id=subject.media_id,
        text=text,
        answer=answer,
        labels=list(labels),
        patient_id=subject.patient_id,
        facets={"task": task, **({"subtype": subtype} if subtype else {}), "phantom": "yes", **subject.facets},
        seed=seed,
        num_options=NUM_OPTIONS,
    )
