"""Draws the structures of the standard planes of head, abdomen, femur and heart, complete or without their landmarks.

The sizes are those at 20 to 28 weeks. A complete plane shows the landmarks of the ISUOG guidelines.

Source: Salomon et al., ISUOG Practice Guidelines: performance of the routine mid-trimester fetal ultrasound scan,
Ultrasound Obstet Gynecol 59 (2022); biometry after Hadlock et al., Radiology 152 (1984).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from medtune.benchmarks.simulators.bmode_tissue import (
    BONE,
    BRAIN,
    CARTILAGE,
    CHOROID,
    FLUID,
    KIDNEY,
    LIVER,
    LUNG,
    MEMBRANE,
    MUSCLE,
    MYOCARDIUM,
    SKULL,
    SOFT,
    Structure,
    Tissue,
    brighter,
    tinted,
    waves,
)
from medtune.benchmarks.simulators.shapes import Pose, blob, ellipse, rod, tube, union

Plane = Literal["head", "abdomen", "femur", "heart"]
PLANES: tuple[Plane, ...] = ("head", "abdomen", "femur", "heart")

Orientation = Literal["hdvb", "hdvf", "huvb", "huvf"]
Diagnosis = Literal["normal", "benign", "malignant"]
EchoPattern = Literal["no mass", "anechoic", "uniform", "heterogeneous"]
ORIENTATIONS: tuple[Orientation, ...] = ("hdvb", "hdvf", "huvb", "huvf")
DIAGNOSES: tuple[Diagnosis, ...] = ("normal", "benign", "malignant")
_BENIGN_ECHO_DB = {"anechoic": -70.0, "uniform": -44.0}


class HalfAxes(NamedTuple):
    """The half axes of a fetal part in mm: `a_mm` along the axis of its pose, `b_mm` across it."""

    a_mm: float
    b_mm: float


class Section(NamedTuple):
    """A cut through a fetal part: the half axes of its outline, and its structures in the order of painting."""

    extent: HalfAxes
    structures: tuple[Structure, ...]


def head(pose: Pose, *, size: float, is_complete: bool, rng: np.random.Generator) -> Section:
    """Returns an axial cut through the head: complete at falx and cavum septi pellucidi, else at the orbits."""
    a_mm = 38 * size * float(rng.uniform(0.94, 1.06))
    b_mm = a_mm * (float(rng.uniform(0.74, 0.82)) if is_complete else float(rng.uniform(0.84, 0.94)))
    skull_mm = float(rng.uniform(2.0, 2.8))
    outline = ellipse(pose, a_mm=a_mm, b_mm=b_mm)
    brain = ellipse(pose, a_mm=a_mm - skull_mm, b_mm=b_mm - skull_mm)
    parts = [Structure(outline, SKULL, "head"), Structure(brain, tinted(BRAIN, rng))]
    for side in (-1, 1):
        insula = pose.at(a_mm * 0.05, side * b_mm * 0.55, side * 0.15)
        parts.append(Structure(rod(insula, length_mm=a_mm * 0.5, width_mm=1.2), brighter(CHOROID, -5)))
    plexus = pose.at(-a_mm * 0.42, b_mm * 0.42, -0.3)
    shape = blob(plexus, a_mm=a_mm * 0.24, b_mm=b_mm * 0.15, ripples=waves(rng, size=0.1))
    parts.append(Structure(ellipse(plexus, a_mm=a_mm * 0.34, b_mm=b_mm * 0.22), FLUID))
    parts.append(Structure(shape, tinted(CHOROID, rng), "choroid plexus"))
    if is_complete:
        falx = rod(pose, length_mm=a_mm * 1.72, width_mm=1.4)
        cavum = pose.at(a_mm * 0.48, 0)
        wall = blob(cavum, a_mm=a_mm * 0.19, b_mm=b_mm * 0.18, ripples=[(4, 0.12, np.pi)])
        inner = blob(cavum, a_mm=a_mm * 0.16, b_mm=b_mm * 0.14, ripples=[(4, 0.12, np.pi)])
        parts.append(Structure(falx, MEMBRANE, "midline falx"))
        for side in (-1, 1):
            thalamus = ellipse(pose.at(-a_mm * 0.02, side * b_mm * 0.17), a_mm=a_mm * 0.2, b_mm=b_mm * 0.13)
            parts.append(Structure(thalamus, brighter(BRAIN, -6)))
        parts += [Structure(wall, MEMBRANE, "cavum septi pellucidi"), Structure(inner, FLUID)]
    else:
        for side in (-1, 1):
            ridge = pose.at(-a_mm * 0.08, side * b_mm * 0.36, side * 0.9)
            parts.append(Structure(rod(ridge, length_mm=a_mm * 0.42, width_mm=4.5), brighter(SKULL, 5)))
            orbit = pose.at(a_mm * 0.56, side * b_mm * 0.32)
            parts.append(Structure(ellipse(orbit, a_mm=a_mm * 0.22, b_mm=a_mm * 0.19), brighter(MEMBRANE, -2)))
            parts.append(Structure(ellipse(orbit, a_mm=a_mm * 0.17, b_mm=a_mm * 0.14), FLUID))
    return Section(HalfAxes(a_mm, b_mm), tuple(parts))


def vertebra(pose: Pose, *, size: float) -> tuple[Structure, ...]:
    """Returns a cut across a vertebra: three ossification centres in a triangle."""
    centres = [(0.0, -4.0), (3.4, 2.2), (-3.4, 2.2)]
    dots = [ellipse(pose.at(u * size, v * size), a_mm=1.7 * size, b_mm=1.7 * size) for u, v in centres]
    outline = ellipse(pose, a_mm=6.5 * size, b_mm=6.8 * size)
    return (Structure(outline, brighter(SOFT, 3), "spine"), Structure(union(*dots), CARTILAGE))


def abdomen(pose: Pose, *, size: float, is_complete: bool, rng: np.random.Generator) -> Section:
    """Returns an axial cut through the abdomen: complete at stomach bubble and umbilical vein, else at the kidneys."""
    a_mm = 31 * size * float(rng.uniform(0.93, 1.07))
    b_mm = a_mm * (float(rng.uniform(0.88, 0.98)) if is_complete else float(rng.uniform(0.72, 0.82)))
    outline = ellipse(pose, a_mm=a_mm, b_mm=b_mm)
    inside = ellipse(pose, a_mm=a_mm - 1.6, b_mm=b_mm - 1.6)
    parts = [Structure(outline, brighter(MEMBRANE, -3), "abdomen"), Structure(inside, tinted(LIVER, rng))]
    parts += vertebra(pose.at(0, b_mm * 0.7), size=size)
    aorta = pose.at(-a_mm * 0.14, b_mm * 0.4)
    parts.append(Structure(ellipse(aorta, a_mm=2.2 * size, b_mm=2.2 * size), FLUID))
    if is_complete:
        stomach = pose.at(-a_mm * 0.5, b_mm * float(rng.uniform(-0.1, 0.1)), float(rng.uniform(0.8, 1.6)))
        bubble = blob(
            stomach,
            a_mm=a_mm * float(rng.uniform(0.26, 0.38)),
            b_mm=a_mm * float(rng.uniform(0.16, 0.24)),
            ripples=waves(rng, size=0.08),
        )
        along = np.linspace(0, 1, 9)
        hook = 0.06 + 0.34 * along**3
        vein = [(a_mm * float(u), b_mm * float(v)) for u, v in zip(hook, 0.85 * along - 0.8, strict=True)]
        parts.append(Structure(bubble, FLUID, "stomach bubble"))
        parts.append(Structure(tube(pose, vein, width_mm=7.4 * size), MEMBRANE, "umbilical vein"))
        parts.append(Structure(tube(pose, vein, width_mm=5.6 * size), FLUID))
    else:
        for side in (-1, 1):
            kidney = pose.at(side * a_mm * 0.45, b_mm * 0.42, side * 0.5)
            parts.append(Structure(ellipse(kidney, a_mm=a_mm * 0.25, b_mm=b_mm * 0.2), tinted(KIDNEY, rng), "kidney"))
            parts.append(Structure(rod(kidney, length_mm=a_mm * 0.2, width_mm=2.4), brighter(CHOROID, 2)))
    return Section(HalfAxes(a_mm, b_mm), tuple(parts))


def femur(pose: Pose, *, size: float, is_complete: bool, rng: np.random.Generator) -> Section:
    """Returns a cut through the thigh: complete with the whole shaft, else oblique with a short, fading part of it."""
    half_mm = 21 * size * float(rng.uniform(0.9, 1.1))
    a_mm, b_mm = half_mm * float(rng.uniform(1.3, 1.45)), 12.5 * size * float(rng.uniform(0.85, 1.2))
    thigh = blob(pose, a_mm=a_mm, b_mm=b_mm, ripples=[(1, 0.1, 0.0), (4, 0.06, np.pi)])
    inside = blob(pose, a_mm=a_mm - 1.4, b_mm=b_mm - 1.4, ripples=[(1, 0.1, 0.0), (4, 0.06, np.pi)])
    parts = [Structure(thigh, brighter(MEMBRANE, -4), "thigh"), Structure(inside, tinted(brighter(MUSCLE, 4), rng))]
    if is_complete:
        shaft = pose.at(0, -b_mm * 0.05, float(rng.uniform(-0.05, 0.05)))
        bow = half_mm * 0.06
        line = [(-half_mm, 0.0), (-half_mm * 0.4, -bow), (half_mm * 0.4, -bow), (half_mm, 0.0)]
        parts.append(Structure(tube(shaft, line, width_mm=3.0 * size), BONE, "femur"))
        for end in (-1, 1):
            knob = ellipse(shaft.at(end * half_mm, 0.6), a_mm=2.2 * size, b_mm=2.2 * size)
            parts.append(Structure(knob, brighter(BONE, 2)))
    else:
        tilt_rad = float(rng.choice([-1, 1]) * rng.uniform(0.25, 0.45))
        short = pose.at(half_mm * float(rng.uniform(-0.35, 0.35)), 0, tilt_rad)
        length_mm = half_mm * float(rng.uniform(0.5, 0.75))
        parts.append(Structure(rod(short, length_mm=length_mm, width_mm=4.5 * size), brighter(BONE, -6), "femur"))
    return Section(HalfAxes(a_mm, b_mm), tuple(parts))


def heart(pose: Pose, *, size: float, is_complete: bool, rng: np.random.Generator) -> Section:
    """Returns a cut through the thorax: complete with four chambers, else oblique with one cavity and its outflow."""
    a_mm = 29 * size * float(rng.uniform(0.93, 1.07))
    b_mm = a_mm * (float(rng.uniform(0.88, 0.98)) if is_complete else float(rng.uniform(0.72, 0.82)))
    lungs = ellipse(pose, a_mm=a_mm - 1.6, b_mm=b_mm - 1.6)
    parts = [
        Structure(ellipse(pose, a_mm=a_mm, b_mm=b_mm), brighter(MEMBRANE, -3), "thorax"),
        Structure(lungs, tinted(LUNG, rng)),
    ]
    for angle_rad in (0.45, 0.95, 1.5, 2.15, 3.4, 4.0, 4.9, 5.6):
        rib = pose.at(a_mm * 0.92 * np.cos(angle_rad), b_mm * 0.92 * np.sin(angle_rad), angle_rad + np.pi / 2)
        parts.append(Structure(rod(rib, length_mm=a_mm * 0.3, width_mm=2.4), CARTILAGE))
    parts += vertebra(pose.at(0, b_mm * 0.72), size=size)
    core = pose.at(-a_mm * 0.16, -b_mm * 0.14, float(rng.uniform(0.55, 0.95)))
    length_mm, width_mm = a_mm * float(rng.uniform(0.68, 0.76)), b_mm * float(rng.uniform(0.52, 0.58))
    aorta = pose.at(-a_mm * 0.14, b_mm * 0.42)
    parts.append(Structure(ellipse(aorta, a_mm=2.5 * size, b_mm=2.5 * size), FLUID))
    parts.append(Structure(ellipse(core, a_mm=length_mm, b_mm=width_mm), tinted(MYOCARDIUM, rng), "heart"))
    if is_complete:
        for side in (-1, 1):
            ventricle = core.at(-0.36 * length_mm, side * width_mm * 0.39, side * 0.22)
            taper = [(1, 0.14, 0.0), (3, 0.05, 0.0)]
            parts.append(Structure(blob(ventricle, a_mm=length_mm * 0.4, b_mm=width_mm * 0.3, ripples=taper), FLUID))
            atrium = core.at(0.46 * length_mm, side * width_mm * 0.38, -side * 0.3)
            parts.append(Structure(ellipse(atrium, a_mm=length_mm * 0.29, b_mm=width_mm * 0.31), FLUID))
    else:
        parts.append(
            Structure(ellipse(core.at(-length_mm * 0.3, 0), a_mm=length_mm * 0.42, b_mm=width_mm * 0.45), FLUID)
        )
        outflow = [(0.0, 0.0), (length_mm * 0.6, -width_mm * 0.2), (length_mm * 1.3, -width_mm * 0.7)]
        parts.append(Structure(tube(core, outflow, width_mm=width_mm * 0.4), FLUID))
    return Section(HalfAxes(a_mm, b_mm), tuple(parts))


SECTIONS: dict[Plane, Callable[..., Section]] = {"head": head, "abdomen": abdomen, "femur": femur, "heart": heart}


class MassFinding(NamedTuple):
    """The diagnosis in a frame of tissue, and the echo pattern of its mass."""

    diagnosis: Diagnosis
    echo: EchoPattern


# Each diagnosis is listed twice, so that all three occur equally often.
FINDINGS = (
    MassFinding("normal", "no mass"),
    MassFinding("normal", "no mass"),
    MassFinding("benign", "anechoic"),
    MassFinding("benign", "uniform"),
    MassFinding("malignant", "heterogeneous"),
    MassFinding("malignant", "heterogeneous"),
)

WHOLE_BODY = HalfAxes(48.0, 21.0)


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


def mass(pose: Pose, *, size: float, finding: MassFinding, rng: np.random.Generator) -> tuple[Structure, ...]:
    """Returns the structures of a mass; none if the diagnosis is normal.

    A benign mass has a smooth oval margin, lies parallel to the probe, has uniform echoes or none, and enhances the
    echoes behind it. A malignant mass has an irregular spiculated margin, uneven echoes and a bright rim, and casts a
    shadow.

    Source: ACR BI-RADS Atlas, 5th ed. (2013), ultrasound lexicon: shape, margin, echo pattern, posterior features.
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
