"""The acoustic properties of tissues, and the maps of these properties along the scan lines of an image.

Legend of array names: D depth samples, L scan lines.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom

from medtune.benchmarks.simulators.bmode.device import Device
from medtune.benchmarks.simulators.bmode.shapes import Millimetres, Pose, Shape, beyond, blob, overlap


@dataclass(frozen=True, slots=True)
class Tissue:
    """The acoustic properties of a tissue.

    Attributes:
        echo_db: Backscatter relative to the brightest grey, before attenuation.
        attenuation: Attenuation on one way, in dB per cm and MHz.
        impedance: Characteristic impedance in MRayl.
        texture_db: Standard deviation of the slow spatial changes of the backscatter, in dB.
    """

    echo_db: float
    attenuation: float = 0.35
    impedance: float = 1.63
    texture_db: float = 0.8


# Attenuation and impedance: Szabo, Diagnostic Ultrasound Imaging, 2nd ed. (2014), appendix B, with smaller values for
# bone, because fetal bone is thin. The echo levels were set by eye to resemble images of real fetal scans.
FLUID = Tissue(echo_db=-75, attenuation=0.02, impedance=1.50, texture_db=0)
SOFT = Tissue(echo_db=-30, texture_db=1.8)
FAT = Tissue(echo_db=-33, impedance=1.45, texture_db=2.5)
MUSCLE = Tissue(echo_db=-36, attenuation=0.45, impedance=1.68, texture_db=1.5)
PLACENTA = Tissue(echo_db=-25, texture_db=1.5)
BRAIN = Tissue(echo_db=-40, attenuation=0.3, impedance=1.60, texture_db=2.5)
CHOROID = Tissue(echo_db=-21, texture_db=1.5)
LIVER = Tissue(echo_db=-30, texture_db=1.0)
KIDNEY = Tissue(echo_db=-38, impedance=1.62)
LUNG = Tissue(echo_db=-22, texture_db=1.0)
MYOCARDIUM = Tissue(echo_db=-26, impedance=1.67)
SKULL = Tissue(echo_db=-19, attenuation=3.0, impedance=2.6, texture_db=0)
CARTILAGE = Tissue(echo_db=-11, attenuation=5.0, impedance=2.6, texture_db=0)
BONE = Tissue(echo_db=-9, attenuation=16.0, impedance=4.0, texture_db=0)
MEMBRANE = Tissue(echo_db=-15, attenuation=0.7, impedance=1.95, texture_db=0)


@dataclass(frozen=True, slots=True)
class Structure:
    """A shape filled with a tissue; later structures are painted over earlier ones.

    Attributes:
        shape: The shape in the scan plane.
        tissue: The tissue that fills it.
        name: The name of the structure's mask; None if no mask is made of it.
    """

    shape: Shape
    tissue: Tissue
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TissueMaps:
    """Maps of acoustic properties along the scan lines, each of shape (depth, lines) and in the units of `Tissue`."""

    echo_db_DL: NDArray[np.float32]
    attenuation_DL: NDArray[np.float32]
    impedance_DL: NDArray[np.float32]


def brighter(tissue: Tissue, gain_db: float) -> Tissue:
    """Returns the tissue with its backscatter raised by `gain_db`."""
    return replace(tissue, echo_db=tissue.echo_db + gain_db)


def paint(
    structures: tuple[Structure, ...],
    *,
    background: Tissue,
    x_mm_DL: Millimetres,
    z_mm_DL: Millimetres,
    slow_DL: NDArray[np.float32],
) -> TissueMaps:
    """Returns the maps of acoustic properties of a scene.

    Args:
        structures: The structures, in the order in which they are painted.
        background: The tissue outside all structures.
        x_mm_DL: Lateral position of each sample.
        z_mm_DL: Depth of each sample.
        slow_DL: The random texture, which each tissue scales by its `texture_db`; see `slow_field`.
    """
    echo_db_DL = np.full(x_mm_DL.shape, background.echo_db, dtype=np.float32)
    attenuation_DL = np.full_like(echo_db_DL, background.attenuation)
    impedance_DL = np.full_like(echo_db_DL, background.impedance)
    texture_DL = np.full_like(echo_db_DL, background.texture_db)
    for structure in structures:
        tissue = structure.tissue
        inside_DL = structure.shape(x_mm_DL, z_mm_DL)
        echo_db_DL[inside_DL] = tissue.echo_db
        attenuation_DL[inside_DL] = tissue.attenuation
        impedance_DL[inside_DL] = tissue.impedance
        texture_DL[inside_DL] = tissue.texture_db
    echo_db_DL += texture_DL * slow_DL
    return TissueMaps(echo_db_DL, attenuation_DL, impedance_DL)


def slow_field(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Returns a smooth random field of shape (depth, lines) with mean 0 and standard deviation 1."""
    coarse = gaussian_filter(rng.standard_normal((shape[0] // 4, shape[1] // 4), dtype=np.float32), (3.0, 1.5))
    field = zoom(coarse, (shape[0] / coarse.shape[0], shape[1] / coarse.shape[1]), order=1)
    return np.asarray((field - field.mean()) / field.std(), dtype=np.float32)


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


@dataclass(frozen=True, slots=True)
class Patient:
    """The properties that all images of one patient share; none of them depends on the answer to any question.

    Attributes:
        device: The scanner and its settings.
        size: Size of the fetus relative to a fetus of about 27 weeks, whose size is 1.
        wall_mm: Distance from the probe to the uterus.
    """

    device: Device
    size: float
    wall_mm: float
