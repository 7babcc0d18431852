"""Draws simulated patients, lays out the scenes under the probe, and simulates the frames that a scanner shows of them.

Where the structures lie is known from the scene alone, which takes a small part of the time that its image takes.

Legend of array names: H rows, W columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.body_and_mass import (
    WHOLE_BODY,
    Finding,
    Orientation,
    bystanders,
    mass,
    oriented,
    whole_body,
)
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import SECTIONS, HalfAxes, Plane
from medtune.benchmarks.simulators.bmode.acoustics import draw_noise, echo
from medtune.benchmarks.simulators.bmode.device import Pixels, beams, draw_device, in_field, pixels, scan_convert
from medtune.benchmarks.simulators.bmode.shapes import Mask, Pose
from medtune.benchmarks.simulators.bmode.tissue import BACKGROUND, Patient, Structure, paint, slow_field, wall, womb

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


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the structures in one image.

    Attributes:
        masks_HW: The mask of each named structure within the scanned field, parts in shadow included.
        whole: The share of each named structure that lies within the scanned field, 0 to 1.
    """

    masks_HW: Mapping[str, Mask]
    whole: Mapping[str, float]


Scene = tuple[Structure, ...]
"""The structures under the probe, in the order in which they are painted."""


def draw_patient(rng: np.random.Generator) -> Patient:
    """Returns a random patient on a random scanner."""
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


def diagnosis_scene(patient: Patient, finding: Finding, *, rng: np.random.Generator) -> Scene:
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
    """Returns where the named structures of a scene lie in an image; nothing is simulated.

    Args:
        scene: The scene.
        grid: The pixels of the patient's scanner.
    """
    shapes = {part.name: part.shape(grid.x_mm_HW, grid.z_mm_HW) for part in scene if part.name is not None}
    masks_HW = {name: mask_HW & grid.seen_HW for name, mask_HW in shapes.items()}
    whole = {name: float(masks_HW[name].sum() / max(mask_HW.sum(), 1)) for name, mask_HW in shapes.items()}
    return Places(masks_HW, whole)


def simulate_frame(patient: Patient, scene: Scene, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Returns the grey values (H, W) that a scanner shows of a scene.

    Args:
        patient: The patient and the scanner.
        scene: The scene.
        rng: The generator that has drawn the scene, which now draws its texture and noise.
    """
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
