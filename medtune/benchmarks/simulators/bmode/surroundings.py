"""The surroundings of the fetus: abdominal wall, uterus, amniotic fluid and placenta."""

import numpy as np

from medtune.benchmarks.simulators.bmode.shapes import Pose, Shape, beyond, blob, overlap
from medtune.benchmarks.simulators.bmode.tissue import (
    FAT,
    FLUID,
    MEMBRANE,
    MUSCLE,
    PLACENTA,
    SOFT,
    Structure,
    Tissue,
    brighter,
)

BACKGROUND = FAT


def waves(rng: np.random.Generator, *, size: float) -> list[tuple[int, float, float]]:
    """Returns random waves for the margin of a `blob`, each up to `size` high (as a share of the radius)."""
    return [(count, float(rng.uniform(0, size)), float(rng.uniform(0, 2 * np.pi))) for count in (2, 3, 4)]


def tinted(tissue: Tissue, rng: np.random.Generator, *, spread_db: float = 1.6) -> Tissue:
    """Returns the tissue made a little brighter or darker at random, as it differs between people and scanners.

    Args:
        tissue: The tissue to change.
        rng: The source of random numbers.
        spread_db: Standard deviation of the change in dB; the change is at most twice as large.
    """
    return brighter(tissue, float(np.clip(rng.normal(0, spread_db), -2 * spread_db, 2 * spread_db)))


def wall(rng: np.random.Generator, *, thickness_mm: float) -> tuple[Structure, ...]:
    """Returns the layers of the abdominal wall, and as the last one the uterus, which fills everything below them."""
    angle_rad = float(rng.uniform(-0.12, 0.12))

    def below(share: float) -> Pose:
        return Pose(0.0, thickness_mm * share, angle_rad)

    wavelength_mm = float(rng.uniform(60, 120))
    layers = ((0.45, MEMBRANE), (0.5, MUSCLE), (0.85, MEMBRANE), (0.9, SOFT))
    return tuple(
        Structure(
            beyond(below(share), wave_mm=1.5, wavelength_mm=wavelength_mm),
            tissue if tissue is MEMBRANE else tinted(tissue, rng),
        )
        for share, tissue in layers
    )


def womb(fetus: Pose, *, a_mm: float, b_mm: float, uterus: Shape, rng: np.random.Generator) -> tuple[Structure, ...]:
    """Returns the amniotic fluid around a fetal part, and the placenta at a random side of it.

    Args:
        fetus: Centre and axis of the fetal part.
        a_mm: Half axis of the fetal part along the pose's axis.
        b_mm: Half axis of the fetal part across it.
        uterus: The shape outside which neither fluid nor placenta lies.
        rng: The source of random numbers.
    """
    room = rng.uniform(1.05, 1.45, size=2)
    offset_mm = rng.uniform(-0.22, 0.22, size=2) * (a_mm, b_mm)
    cavity = fetus.at(float(offset_mm[0]), float(offset_mm[1]))
    fluid = blob(cavity, a_mm=a_mm * room[0], b_mm=b_mm * room[1], ripples=waves(rng, size=0.06))
    side_rad, reach = float(rng.uniform(0, 2 * np.pi)), float(rng.uniform(1.25, 1.6))
    beside = Pose(
        cavity.x_mm + float(np.cos(side_rad)) * a_mm * reach, cavity.z_mm + float(np.sin(side_rad)) * b_mm * reach
    )
    placenta = blob(beside, a_mm=a_mm * 0.7, b_mm=b_mm * 0.6, ripples=waves(rng, size=0.12))
    return (
        Structure(overlap(fluid, uterus), FLUID),
        Structure(overlap(placenta, uterus), tinted(PLACENTA, rng)),
    )
