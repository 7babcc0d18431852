"""The structures in two simulated views: the whole fetus lengthwise, and tissue with or without a mass."""

from typing import Literal, NamedTuple

import numpy as np

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import HalfAxes, Section
from medtune.benchmarks.simulators.bmode.shapes import Pose, blob, ellipse, rod, tube
from medtune.benchmarks.simulators.bmode.tissue import (
    BONE,
    BRAIN,
    CARTILAGE,
    FLUID,
    LIVER,
    MEMBRANE,
    MUSCLE,
    SKULL,
    SOFT,
    Structure,
    Tissue,
    brighter,
    tinted,
    waves,
)

Orientation = Literal["hdvb", "hdvf", "huvb", "huvf"]
Diagnosis = Literal["normal", "benign", "malignant"]
EchoPattern = Literal["no mass", "anechoic", "uniform", "heterogeneous"]
ORIENTATIONS: tuple[Orientation, ...] = ("hdvb", "hdvf", "huvb", "huvf")
DIAGNOSES: tuple[Diagnosis, ...] = ("normal", "benign", "malignant")


class Finding(NamedTuple):
    """The diagnosis in a frame of tissue, and the echo pattern of its mass."""

    diagnosis: Diagnosis
    echo: EchoPattern


# Each diagnosis is listed twice, so that all three occur equally often.
FINDINGS = (
    Finding("normal", "no mass"),
    Finding("normal", "no mass"),
    Finding("benign", "anechoic"),
    Finding("benign", "uniform"),
    Finding("malignant", "heterogeneous"),
    Finding("malignant", "heterogeneous"),
)

WHOLE_BODY = HalfAxes(48.0, 21.0)
_BENIGN_ECHO_DB = {"anechoic": -70.0, "uniform": -44.0}


def oriented(pose: Pose, orientation: Orientation) -> Pose:
    """Returns the pose of a fetus whose head lies at negative u and whose back lies at negative v.

    The mother's head is at the image's left, as sonographers hold the probe: a head at the right is down (hd). The
    back (vb) or the front (vf) faces the probe.
    """
    is_down, is_back_near = orientation[1] == "d", orientation[3] == "b"
    turn_rad = np.pi if is_down else 0.0
    mirror = 1 if is_back_near != is_down else -1
    return Pose(pose.x_mm, pose.z_mm, pose.angle_rad + turn_rad, mirror)


def whole_body(pose: Pose, *, size: float, rng: np.random.Generator) -> Section:
    """Returns a fetus cut lengthwise: head at negative u, spine at negative v, face and limbs at positive v."""
    a_mm, b_mm = WHOLE_BODY.a_mm * size, WHOLE_BODY.b_mm * size
    curl = float(rng.uniform(0.05, 0.3))
    skull = pose.at(-a_mm * 0.64, b_mm * curl, 0.35)
    trunk = pose.at(a_mm * 0.3, 0)
    head_mm = HalfAxes(a_mm * 0.35, a_mm * 0.29)
    body_mm = HalfAxes(a_mm * 0.64, b_mm * float(rng.uniform(0.72, 0.85)))
    parts = [
        Structure(rod(pose.at(-a_mm * 0.3, b_mm * 0.05), length_mm=a_mm * 0.5, width_mm=b_mm * 0.7), tinted(SOFT, rng)),
        Structure(
            blob(trunk, a_mm=body_mm.a_mm, b_mm=body_mm.b_mm, ripples=[(3, 0.04, 0.0)]), tinted(LIVER, rng), "trunk"
        ),
        Structure(ellipse(skull, a_mm=head_mm.a_mm, b_mm=head_mm.b_mm), SKULL, "head"),
        Structure(ellipse(skull, a_mm=head_mm.a_mm - 2.2, b_mm=head_mm.b_mm - 2.2), tinted(BRAIN, rng)),
    ]
    nose = skull.at(-head_mm.a_mm * 0.1, head_mm.b_mm * 1.0)
    parts.append(Structure(ellipse(nose, a_mm=head_mm.a_mm * 0.3, b_mm=head_mm.b_mm * 0.2), brighter(SOFT, 4)))
    parts.append(Structure(ellipse(trunk.at(-body_mm.a_mm * 0.45, b_mm * 0.12), a_mm=7 * size, b_mm=5.5 * size), FLUID))
    parts.append(Structure(ellipse(trunk.at(a_mm * 0.0, b_mm * 0.2), a_mm=5 * size, b_mm=3.5 * size), FLUID))
    column = [
        (-a_mm * 0.42, -b_mm * 0.28),
        (-a_mm * 0.1, -b_mm * 0.5),
        (a_mm * 0.35, -b_mm * 0.52),
        (a_mm * 0.78, -b_mm * 0.3),
    ]
    parts.append(Structure(tube(pose, column, width_mm=4.6 * size), brighter(SOFT, 4), "spine"))
    along = np.linspace(column[0][0], column[-1][0], 17)
    for u_mm, v_mm in zip(along, np.interp(along, *np.transpose(column)), strict=True):
        dot = ellipse(pose.at(float(u_mm), float(v_mm)), a_mm=1.5 * size, b_mm=1.7 * size)
        parts.append(Structure(dot, CARTILAGE))
    for u, turn_rad in ((-0.05, 0.9), (0.55, 1.0), (0.78, -0.8)):
        limb = pose.at(a_mm * u, b_mm * 1.0, turn_rad * float(rng.uniform(0.6, 1.2)))
        parts.append(Structure(rod(limb, length_mm=19 * size, width_mm=8.5 * size), tinted(MUSCLE, rng), "limb"))
        parts.append(Structure(rod(limb, length_mm=15 * size, width_mm=2.2 * size), CARTILAGE))
    return Section(HalfAxes(a_mm, b_mm), tuple(parts))


def mass(pose: Pose, *, size: float, finding: Finding, rng: np.random.Generator) -> tuple[Structure, ...]:
    """Returns the structures of a mass; none if the diagnosis is normal.

    A benign mass has a smooth oval margin, lies parallel to the probe, has uniform echoes or none, and enhances the
    echoes behind it. A malignant mass has an irregular spiculated margin, uneven echoes and a bright rim, and casts a
    shadow.

    Source:
        ACR BI-RADS Atlas, 5th ed. (2013), ultrasound lexicon: shape, margin, echo pattern, posterior features.
    """
    if finding.diagnosis == "normal":
        return ()
    radius_mm = 12.5 * size * float(rng.uniform(0.85, 1.3))
    if finding.diagnosis == "benign":
        a_mm, b_mm = radius_mm * float(rng.uniform(1.1, 1.35)), radius_mm * float(rng.uniform(0.72, 0.9))
        content = Tissue(echo_db=_BENIGN_ECHO_DB[finding.echo], attenuation=0.08, impedance=1.55, texture_db=0.3)
        return (
            Structure(ellipse(pose, a_mm=a_mm + 0.9, b_mm=b_mm + 0.9), brighter(MEMBRANE, -4), "mass"),
            Structure(ellipse(pose, a_mm=a_mm, b_mm=b_mm), content),
        )
    margin = [
        (count, float(rng.uniform(0.4, 1.0)) * size_limit, float(rng.uniform(0, 2 * np.pi)))
        for count, size_limit in ((2, 0.14), (3, 0.14), (5, 0.1), (8, 0.08), (13, 0.05))
    ]
    content = Tissue(echo_db=-42, attenuation=1.1, impedance=1.66, texture_db=5.0)
    rim = Tissue(echo_db=-23, attenuation=0.6, impedance=1.72, texture_db=2.0)
    parts = [Structure(blob(pose, a_mm=radius_mm * 1.15, b_mm=radius_mm * 1.15, ripples=margin), rim, "mass")]
    for angle_rad in rng.uniform(0, 2 * np.pi) + np.cumsum(rng.uniform(0.4, 0.9, size=9)):
        reach_mm = radius_mm * float(rng.uniform(1.15, 1.45))
        spicule = tube(pose, [(0.0, 0.0), (reach_mm * np.cos(angle_rad), reach_mm * np.sin(angle_rad))], width_mm=1.6)
        parts.append(Structure(spicule, content))
    parts.append(Structure(blob(pose, a_mm=radius_mm, b_mm=radius_mm, ripples=margin), content))
    for _ in range(5):
        u_mm, v_mm = rng.uniform(-0.5, 0.5, size=2) * radius_mm
        parts.append(Structure(ellipse(pose.at(float(u_mm), float(v_mm)), a_mm=0.9, b_mm=0.9), brighter(BONE, -4)))
    return tuple(parts)


def bystanders(*, x_mm: float, depth_mm: float, rng: np.random.Generator) -> tuple[Structure, ...]:
    """Returns vessels and bands of tissue, which do not depend on the diagnosis."""
    parts = []
    for _ in range(int(rng.integers(2, 5))):
        pose = Pose(
            float(rng.uniform(-x_mm, x_mm)), float(rng.uniform(0.2, 0.95)) * depth_mm, float(rng.uniform(-0.6, 0.6))
        )
        tissue = brighter(SOFT, float(rng.uniform(-7, 6)))
        shape = blob(
            pose, a_mm=float(rng.uniform(15, 40)), b_mm=float(rng.uniform(6, 14)), ripples=waves(rng, size=0.15)
        )
        parts.append(Structure(shape, tissue))
    for _ in range(int(rng.integers(0, 4))):
        pose = Pose(
            float(rng.uniform(-x_mm, x_mm)), float(rng.uniform(0.2, 0.9)) * depth_mm, float(rng.uniform(-0.9, 0.9))
        )
        vessel = tube(
            pose, [(-20.0, 0.0), (0.0, float(rng.uniform(-6, 6))), (20.0, 0.0)], width_mm=float(rng.uniform(2, 4))
        )
        parts.append(Structure(vessel, FLUID))
    return tuple(parts)
