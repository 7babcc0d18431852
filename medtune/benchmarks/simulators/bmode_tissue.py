"""The acoustic properties of tissues, and the maps of these properties along the scan lines of an image.

A small model of B-mode physics turns these maps into grey values.

Legend of array names: D depth samples, L scan lines.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft, fftfreq, ifft
from scipy.ndimage import gaussian_filter, gaussian_filter1d, zoom

from medtune.benchmarks.simulators.bmode_device import Beams, Device
from medtune.benchmarks.simulators.shapes import Millimetres, Pose, Shape, beyond, blob, overlap

SPEED_MM_PER_US = 1.54
PULSE_CYCLES = 2.0
COMPENSATED_ATTENUATION = 0.35
SPECULAR_DB = 3.0
INTERFACE_ROUGHNESS = 0.4
DISPLAY_BLUR = (1.1, 0.6)
_PAD_LINES = 24


@dataclass(frozen=True, slots=True)
class Tissue:
    """The acoustic properties of a tissue."""

    echo_db: float  # Backscatter relative to the brightest grey, before attenuation.
    attenuation: float = 0.35  # Attenuation on one way, in dB per cm and MHz.
    impedance: float = 1.63  # Characteristic impedance in MRayl.
    texture_db: float = 0.8  # Standard deviation of the slow spatial changes of the backscatter, in dB.


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
    """A shape filled with a tissue; later structures are painted over earlier ones."""

    shape: Shape  # The shape in the scan plane.
    tissue: Tissue  # The tissue that fills it.
    name: str | None = None  # The name of the structure's mask; None if no mask is made of it.


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
    """Returns the maps of a scene: structures are painted in order, and tissues scale the texture `slow_field`."""
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


def tinted(tissue: Tissue, rng: np.random.Generator) -> Tissue:
    """Returns the tissue made at most 3.2 dB brighter or darker, as it differs between people."""
    return brighter(tissue, float(np.clip(rng.normal(0, 1.6), -3.2, 3.2)))


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
    """Returns the amniotic fluid around a fetal part, and the placenta at a random side of it, in the uterus."""
    room = rng.uniform(1.05, 1.45, size=2)
    offset_mm = rng.uniform(-0.22, 0.22, size=2) * (a_mm, b_mm)
    cavity = fetus.at(float(offset_mm[0]), float(offset_mm[1]))
    fluid = blob(cavity, a_mm=a_mm * room[0], b_mm=b_mm * room[1], ripples=waves(rng, size=0.06))
    side_rad, reach = float(rng.uniform(0, 2 * np.pi)), float(rng.uniform(1.25, 1.6))
    beside = Pose(
        cavity.x_mm + float(np.cos(side_rad)) * a_mm * reach, cavity.z_mm + float(np.sin(side_rad)) * b_mm * reach
    )
    placenta = blob(beside, a_mm=a_mm * 0.7, b_mm=b_mm * 0.6, ripples=waves(rng, size=0.12))
    return (Structure(overlap(fluid, uterus), FLUID), Structure(overlap(placenta, uterus), tinted(PLACENTA, rng)))


@dataclass(frozen=True, slots=True)
class Patient:
    """The properties that all images of one patient share; none of them depends on the answer to any question."""

    device: Device  # The scanner and its settings.
    size: float  # Size of the fetus relative to a fetus of about 27 weeks, whose size is 1.
    wall_mm: float  # Distance from the probe to the uterus.


def axial_sigma_mm(*, frequency_mhz: float) -> float:
    """Returns the axial standard deviation of the point-spread function's amplitude, in mm.

    Source: Pulse-echo axial resolution is half the pulse length, N c / (2 f) (Szabo 2014, section 10.5); taken as FWHM.
    """
    return PULSE_CYCLES * SPEED_MM_PER_US / frequency_mhz / 2 / 2.355


def lateral_sigma_mm(
    path_mm_D: NDArray[np.float32], *, frequency_mhz: float, aperture_mm: float, focus_mm: float
) -> NDArray[np.float32]:
    """Returns the lateral standard deviation of the point-spread function's amplitude at each depth, in mm.

    Source: Focal beam width (FWHM) 1.2 lambda F and depth of field 7.1 lambda F^2 with F = focus / aperture (Szabo
    2014, section 6.6); away from the focus the width grows as that of a Gaussian beam.
    """
    wavelength_mm, f_number = SPEED_MM_PER_US / frequency_mhz, focus_mm / aperture_mm
    field_mm = 7.1 * wavelength_mm * f_number**2
    spread_D = np.sqrt(1 + ((path_mm_D - focus_mm) / field_mm) ** 2)
    return np.asarray(1.2 * wavelength_mm * f_number / 2.355 * spread_D, dtype=np.float32)


def point_spread(
    field_DL: NDArray[np.complex64], *, axial_samples: float, lateral_samples_D: NDArray[np.float32]
) -> NDArray[np.complex64]:
    """Returns a field (depth, lines) blurred by Gaussians: along scan lines, and for each depth across them."""
    padded_DL = np.pad(field_DL, ((0, 0), (_PAD_LINES, _PAD_LINES)), mode="reflect")
    frequency_L = fftfreq(padded_DL.shape[1]).astype(np.float32)
    transfer_DL = np.exp(-2 * (np.pi * lateral_samples_D[:, None] * frequency_L) ** 2)
    transfer_DL /= np.sqrt((transfer_DL**2).mean(axis=1, keepdims=True))
    blurred_DL = ifft(fft(padded_DL, axis=1) * transfer_DL, axis=1)[:, _PAD_LINES:-_PAD_LINES]
    impulse = gaussian_filter1d(np.eye(1, 65, 32)[0], axial_samples)
    blurred_DL = gaussian_filter1d(blurred_DL, axial_samples, axis=0) / np.sqrt((impulse**2).sum())
    return np.asarray(blurred_DL, dtype=np.complex64)


def two_way_loss_db(
    attenuation_DL: NDArray[np.float32], *, frequency_mhz: float, step_mm: float
) -> NDArray[np.float32]:
    """Returns the loss of an echo to each sample and back, in dB, of attenuation one way in dB per cm and MHz.

    This loss alone produces the shadows behind bone and the enhancement behind fluid.

    Source: Loss = 2 f times the integral of alpha along the way (Szabo 2014, section 4.2).
    """
    return np.asarray(2 * frequency_mhz * step_mm / 10 * np.cumsum(attenuation_DL, axis=0), dtype=np.float32)


def specular(
    impedance_DL: NDArray[np.float32], *, depth_mm: float, line_mm_D: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Returns the strength of the reflection at interfaces, which is greatest if the beam meets them at a right angle.

    Source: A step of impedance reflects (Z2 - Z1) / (Z2 + Z1), about half the step of log Z; the fourth power of the
    cosine of the angle of incidence stands for the lobe of a smooth reflector.
    """
    half_log_DL = gaussian_filter(np.log(impedance_DL) / 2, 1.0)
    along_DL, across_DL = np.gradient(half_log_DL)
    step_mm = depth_mm / (impedance_DL.shape[0] - 1)
    slope_DL = (across_DL / line_mm_D[:, None]) ** 2
    cos2_DL = (along_DL / step_mm) ** 2 / ((along_DL / step_mm) ** 2 + slope_DL + 1e-12)
    return np.asarray(np.abs(along_DL) * cos2_DL**2, dtype=np.float32)


def compress(envelope_DL: NDArray[np.float32], *, gain_db: float, dynamic_range_db: float) -> NDArray[np.float32]:
    """Returns the echo as grey values from 0 to 1, on a scale in dB and smoothed as scanners do.

    An echo of 0 dB (after the gain is added) gives 1; an echo `dynamic_range_db` below it, or weaker, gives 0.
    """
    echo_db_DL = 20 * np.log10(np.maximum(envelope_DL, np.float32(1e-9))) + np.float32(gain_db)
    grey_DL = np.clip(1 + echo_db_DL / dynamic_range_db, 0, 1)
    return np.asarray(gaussian_filter(grey_DL, DISPLAY_BLUR), dtype=np.float32)


class Noise(NamedTuple):
    """The random fields of a frame, each of shape (depth, lines)."""

    scatterers_DL: NDArray[np.complex64]  # Strength and phase of the scatterers in the tissue, circular Gaussian.
    roughness_DL: NDArray[np.float32]  # Roughness of the interfaces, standard normal.
    electronic_DL: NDArray[np.complex64]  # Electronic noise of the scanner, circular Gaussian.


def draw_noise(shape: tuple[int, ...], rng: np.random.Generator) -> Noise:
    return Noise(circular_noise(shape, rng), rng.standard_normal(shape, dtype=np.float32), circular_noise(shape, rng))


def echo(maps: TissueMaps, *, device: Device, lines: Beams, noise: Noise) -> NDArray[np.float32]:
    """Returns the grey values 0 to 1 of one frame along its scan lines, (depth, lines).

    Source: Fully developed speckle: many scatterers per resolution cell give a circular Gaussian field and a Rayleigh
    envelope with mean / standard deviation 1.91 (Burckhardt 1978; Wagner et al. 1983).
    """
    step_mm = device.depth_mm / (maps.echo_db_DL.shape[0] - 1)
    frequency_mhz = device.frequency_mhz
    loss_db_DL = two_way_loss_db(maps.attenuation_DL, frequency_mhz=frequency_mhz, step_mm=step_mm)
    scatterers_DL = 10 ** ((maps.echo_db_DL - loss_db_DL) / 20) * noise.scatterers_DL
    interfaces_DL = specular(maps.impedance_DL, depth_mm=device.depth_mm, line_mm_D=lines.line_spacing_mm_D)
    roughness_DL = 1 + INTERFACE_ROUGHNESS * noise.roughness_DL
    scatterers_DL += 10 ** ((SPECULAR_DB - loss_db_DL) / 20) * interfaces_DL * roughness_DL
    lateral_mm_D = lateral_sigma_mm(
        lines.path_mm_D, frequency_mhz=frequency_mhz, aperture_mm=device.aperture_mm, focus_mm=device.focus_mm
    )
    field_DL = point_spread(
        scatterers_DL.astype(np.complex64),
        axial_samples=axial_sigma_mm(frequency_mhz=frequency_mhz) / step_mm,
        lateral_samples_D=lateral_mm_D / lines.line_spacing_mm_D,
    )
    field_DL += 10 ** (device.noise_db / 20) * noise.electronic_DL
    tgc_db_D = (2 * frequency_mhz * COMPENSATED_ATTENUATION + device.tgc_error_db_per_cm) * lines.path_mm_D / 10
    envelope_DL = np.abs(field_DL) * 10 ** (tgc_db_D[:, None] / 20)
    return compress(envelope_DL.astype(np.float32), gain_db=device.gain_db, dynamic_range_db=device.dynamic_range_db)


def circular_noise(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.complex64]:
    """Returns circular Gaussian complex noise with a mean power of 1."""
    parts = rng.standard_normal((2, *shape), dtype=np.float32)
    return np.asarray((parts[0] + 1j * parts[1]) / np.sqrt(np.float32(2)), dtype=np.complex64)
