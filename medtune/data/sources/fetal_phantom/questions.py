"""The five tasks of Fetal-Gauge: what is asked about a simulated frame, in expanded words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medtune.data.choices import choice_question
from medtune.data.masks import box_size, outer_box
from medtune.data.sources.fetal_phantom.device import IMAGE_SIZE
from medtune.data.sources.fetal_phantom.frames import Frame
from medtune.data.sources.fetal_phantom.planes import Plane
from medtune.data.sources.fetal_phantom.shapes import Mask
from medtune.data.sources.fetal_phantom.views import DIAGNOSES, Diagnosis, Orientation
from medtune.data.types import Box, Question

PLANE_TEXT = "Which anatomical plane does this fetal ultrasound image show?"
COMPLETENESS_TEXT = "Does this view meet the standard for measurement?"
ORIENTATION_TEXT = "How does the fetus lie? The mother's head is to the left of the image, the probe at the top."
DIAGNOSIS_TEXT = "What is the clinical diagnosis?"
GROUNDING_TEXT = "What does the red bounding box represent?"

PLANE_WORDS: Mapping[Plane, str] = {
    "head": "head circumference plane",
    "abdomen": "abdominal circumference plane",
    "femur": "femur length plane",
    "heart": "four-chamber heart plane",
}
COMPLETE, INCOMPLETE = "complete, all landmarks are shown", "incomplete, landmarks are missing or cut obliquely"
ORIENTATION_WORDS: Mapping[Orientation, str] = {
    "hdvb": "head down, back towards the probe",
    "hdvf": "head down, front towards the probe",
    "huvb": "head up, back towards the probe",
    "huvf": "head up, front towards the probe",
}
# Distractors come from the answer's own half, so that the size of a box says little.
SMALLER = ("cavum septi pellucidi", "choroid plexus", "stomach bubble", "umbilical vein", "spine", "femur")
LARGER = ("head", "midline falx", "abdomen", "thigh", "heart", "thorax")
STRUCTURES = (*SMALLER, *LARGER)
MAX_BOXES = 3
MIN_WHOLE = 0.85
_MARGIN_PX = 6


class Subject(NamedTuple):
    """What a question is about: the media item and the facets that all its questions share."""

    media_id: str
    patient_id: str
    facets: Mapping[str, str]


def plane_questions(subject: Subject, plane: Plane, *, is_complete: bool, seed: int) -> list[Question]:
    """Returns plane identification and view completeness."""
    return [
        _question(
            subject, "plane_identification", PLANE_TEXT, PLANE_WORDS[plane], list(PLANE_WORDS.values()), seed=seed
        ),
        _question(
            subject,
            "view_completeness",
            COMPLETENESS_TEXT,
            COMPLETE if is_complete else INCOMPLETE,
            [COMPLETE, INCOMPLETE],
            seed=seed,
        ),
    ]


def orientation_question(subject: Subject, orientation: Orientation, *, seed: int) -> Question:
    """Returns the question about how the fetus lies, hdvb, hdvf, huvb or huvf in words."""
    words = list(ORIENTATION_WORDS.values())
    return _question(subject, "fetal_orientation", ORIENTATION_TEXT, ORIENTATION_WORDS[orientation], words, seed=seed)


def diagnosis_question(subject: Subject, diagnosis: Diagnosis, *, seed: int) -> Question:
    """Returns the question normal, benign or malignant."""
    return _question(subject, "clinical_diagnosis", DIAGNOSIS_TEXT, diagnosis, list(DIAGNOSES), seed=seed)


def grounding_question(subject: Subject, name: str, box: Box, *, seed: int) -> Question:
    """Returns the question what the red box around `name` represents, with three distractors of its half of sizes."""
    size = box_size(box, IMAGE_SIZE, IMAGE_SIZE)
    boxed = subject._replace(facets={**subject.facets, "box_size": size})
    labels = SMALLER if name in SMALLER else LARGER
    return _question(boxed, "visual_grounding", GROUNDING_TEXT, name, labels, seed=seed)


def structures_to_box(frame: Frame, counts: Counter[str], *, quota: float, rng: np.random.Generator) -> list[str]:
    """Returns which structures of a frame to put into boxes, at most `MAX_BOXES`, and adds them to `counts`.

    A structure that already has its share is passed over: all answers come equally often, so that neither the
    question nor its options say which is likely.

    Args:
        frame: With the masks.
        counts: Boxes so far, by structure.
        quota: Boxes that each structure should have by now.
        rng: Breaks ties.
    """
    whole = [name for name in STRUCTURES if frame.whole.get(name, 0.0) >= MIN_WHOLE and counts[name] < quota]
    order = rng.permutation(len(whole))
    chosen = sorted((whole[i] for i in order), key=lambda name: counts[name])[:MAX_BOXES]
    counts.update(chosen)
    return chosen


def loose_box(mask_HW: Mask, rng: np.random.Generator) -> Box:
    """Returns a box around the mask, each side up to a few pixels too far out, within the image.

    Raises:
        ValueError: The mask is empty.
    """
    box = outer_box(mask_HW)
    if box is None:
        raise ValueError("wanted a structure to box, its mask is empty.")
    left, up, right, down = (int(px) for px in rng.integers(0, _MARGIN_PX + 1, size=4))
    height, width = mask_HW.shape
    return Box(max(box.x0 - left, 0), max(box.y0 - up, 0), min(box.x1 + right, width), min(box.y1 + down, height))


def _question(subject: Subject, task: str, text: str, answer: str, labels: Sequence[str], *, seed: int) -> Question:
    return choice_question(
        f"{subject.media_id}-{task}",
        media_id=subject.media_id,
        text=text,
        answer=answer,
        labels=labels,
        patient_id=subject.patient_id,
        facets={"task": task, "phantom": "yes", **subject.facets},
        seed=seed,
        num_options=4,
    )
