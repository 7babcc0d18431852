"""Draws simulated patients, lays out the scenes under the probe, and simulates the frames that a scanner shows of them.

Where the structures lie is known from the scene alone, which takes a small part of the time that its image takes.

Legend of array names: H rows, W columns.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import (
    DIAGNOSES,
    SECTIONS,
    WHOLE_BODY,
    Diagnosis,
    HalfAxes,
    MassFinding,
    Orientation,
    Plane,
    bystanders,
    mass,
    oriented,
    whole_body,
)
from medtune.benchmarks.simulators.bmode_device import (
    IMAGE_SIZE,
    Pixels,
    beams,
    draw_device,
    in_field,
    pixels,
    scan_convert,
)
from medtune.benchmarks.simulators.bmode_tissue import (
    BACKGROUND,
    Patient,
    Structure,
    draw_noise,
    echo,
    paint,
    slow_field,
    wall,
    womb,
)
from medtune.benchmarks.simulators.shapes import Mask, Pose
from medtune.data.media.masks import box_size, outer_box
from medtune.data.raw.lettered_options import choice_question
from medtune.data.types import Box, Question

_REACH: dict[Plane, HalfAxes] = {
    "head": HalfAxes(38, 32),
    "abdomen": HalfAxes(31, 30),
    "femur": HalfAxes(27, 16),
    "heart": HalfAxes(29, 28),
}


# This gives a radius of 9 to 13 mm, small enough that the margin cannot be seen in a thumbnail.
MASS_SIZE = 0.8
_TRIES = 60
_ENOUGH = 0.95

Scene = tuple[Structure, ...]
"""The structures under the probe, in the order in which they are painted."""
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


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the structures in one image."""

    masks_HW: Mapping[str, Mask]  # The mask of each named structure within the scanned field, parts in shadow included.
    whole: Mapping[str, float]  # The share of each named structure that lies within the scanned field, 0 to 1.


def draw_patient(rng: np.random.Generator) -> Patient:
    return Patient(draw_device(rng), size=float(rng.uniform(0.74, 0.98)), wall_mm=float(rng.uniform(6, 14)))


def plane_scene(patient: Patient, plane: Plane, *, is_complete: bool, rng: np.random.Generator) -> Scene:
    """Returns the scene of a standard plane, or of a cut through the same part that misses the plane's landmarks."""
    reach = _REACH[plane]
    limit_rad = 0.65 if plane == "femur" else np.pi
    pose = _place(patient, HalfAxes(reach.a_mm * patient.size, reach.b_mm * patient.size), limit_rad=limit_rad, rng=rng)
    section = SECTIONS[plane](pose, size=patient.size, is_complete=is_complete, rng=rng)
    layers = wall(rng, thickness_mm=patient.wall_mm)
    around = womb(pose, a_mm=section.extent.a_mm, b_mm=section.extent.b_mm, uterus=layers[-1].shape, rng=rng)
    return layers + around + section.structures


def orientation_scene(patient: Patient, orientation: Orientation, *, rng: np.random.Generator) -> Scene:
    """Returns the scene of the whole fetus lengthwise."""
    reach = HalfAxes(WHOLE_BODY.a_mm * patient.size, WHOLE_BODY.b_mm * 1.3 * patient.size)
    pose = oriented(_place(patient, reach, limit_rad=0.3, rng=rng, is_turned=False), orientation)
    section = whole_body(pose, size=patient.size, rng=rng)
    layers = wall(rng, thickness_mm=patient.wall_mm)
    around = womb(pose, a_mm=section.extent.a_mm, b_mm=section.extent.b_mm * 1.5, uterus=layers[-1].shape, rng=rng)
    return layers + around + section.structures


def diagnosis_scene(patient: Patient, finding: MassFinding, *, rng: np.random.Generator) -> Scene:
    """Returns a scene of tissue with a benign, a malignant or no mass."""
    depth_mm = patient.device.depth_mm
    pose = _place(patient, HalfAxes(17, 14), limit_rad=0.4, rng=rng)
    shallow = Pose(pose.x_mm, min(pose.z_mm, 0.68 * depth_mm), pose.angle_rad)
    return (
        *wall(rng, thickness_mm=patient.wall_mm),
        *bystanders(x_mm=0.35 * depth_mm, depth_mm=depth_mm, rng=rng),
        *mass(shallow, size=MASS_SIZE, finding=finding, rng=rng),
    )


def places(scene: Scene, grid: Pixels) -> Places:
    """Returns where the named structures of a scene lie in an image; nothing is simulated."""
    shapes = {part.name: part.shape(grid.x_mm_HW, grid.z_mm_HW) for part in scene if part.name is not None}
    masks_HW = {name: mask_HW & grid.seen_HW for name, mask_HW in shapes.items()}
    whole = {name: float(masks_HW[name].sum() / max(mask_HW.sum(), 1)) for name, mask_HW in shapes.items()}
    return Places(masks_HW, whole)


def simulate_frame(patient: Patient, scene: Scene, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Returns the grey values (H, W) that a scanner shows of a scene, which the same `rng` has drawn."""
    lines, grid = beams(patient.device), pixels(patient.device)
    slow_DL = slow_field(lines.x_mm_DL.shape, rng)
    maps = paint(scene, background=BACKGROUND, x_mm_DL=lines.x_mm_DL, z_mm_DL=lines.z_mm_DL, slow_DL=slow_DL)
    noise = draw_noise(lines.x_mm_DL.shape, rng)
    grey_HW = scan_convert(echo(maps, device=patient.device, lines=lines, noise=noise), grid)
    return (grey_HW * 255).round().astype(np.uint8)


def _place(
    patient: Patient, reach: HalfAxes, *, limit_rad: float, rng: np.random.Generator, is_turned: bool = True
) -> Pose:
    device, around_rad = patient.device, np.linspace(0, 2 * np.pi, 24, endpoint=False)
    u_N, v_N = reach.a_mm * np.cos(around_rad), reach.b_mm * np.sin(around_rad)
    tried: list[tuple[float, Pose]] = []
    while len(tried) < _TRIES and (not tried or tried[-1][0] < _ENOUGH):
        pose = Pose(
            float(rng.uniform(-0.5, 0.5)) * device.depth_mm,
            float(rng.uniform(0.2, 0.9)) * device.depth_mm,
            float(rng.uniform(-limit_rad, limit_rad)),
            int(rng.choice([-1, 1])) if is_turned else 1,
        )
        cos, sin = np.cos(pose.angle_rad), np.sin(pose.angle_rad)
        x_N, z_N = pose.x_mm + cos * u_N - sin * v_N, pose.z_mm + sin * u_N + cos * v_N
        tried.append((float((in_field(device, x_N, z_N) & (z_N > patient.wall_mm)).mean()), pose))
    return max(tried, key=lambda share_and_pose: share_and_pose[0])[1]


class PhantomMedia(NamedTuple):
    """A media item about which questions are asked, its patient, and the facets that all its questions share."""

    media_id: str
    patient_id: str
    facets: Mapping[str, str]


def plane_questions(subject: PhantomMedia, plane: Plane, *, is_complete: bool, seed: int) -> list[Question]:
    """Returns the questions which plane a frame shows (plane identification) and whether it is complete."""
    completeness = COMPLETE if is_complete else INCOMPLETE
    return [
        _question(subject, "plane_identification", "", PLANE_TEXT, PLANE_WORDS[plane], PLANE_WORDS.values(), seed),
        _question(subject, "view_completeness", "", COMPLETENESS_TEXT, completeness, (COMPLETE, INCOMPLETE), seed),
    ]


def orientation_questions(subject: PhantomMedia, orientation: Orientation, *, seed: int) -> list[Question]:
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


def diagnosis_questions(subject: PhantomMedia, finding: MassFinding, *, seed: int) -> list[Question]:
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
        """Returns at most `wanted` structures of a frame to draw boxes around: those that had the fewest so far."""
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


def grounding_question(subject: PhantomMedia, name: str, box: Box, *, options: Sequence[str], seed: int) -> Question:
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
    subject: PhantomMedia, task: str, subtype: str, text: str, answer: str, labels: Iterable[str], seed: int
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
