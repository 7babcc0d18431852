"""Simulates one sweep of the probe along the fetus: its path, and the frames that the scanner shows on the way.

Speckle and texture are fixed to places in the body, so a plane that is seen twice looks the same except for electronic
noise. A clip played backwards is therefore a valid sweep in the other direction, and a model that ignores the order of
the frames cannot tell the two directions apart.

Legend of array names: T frames, D depth samples, L scan lines, H rows, W columns.
"""

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from medtune.benchmarks.fetal_sweep.body import Plane, body, cut
from medtune.benchmarks.simulators.bmode_device import beams, draw_device, pixels, scan_convert
from medtune.benchmarks.simulators.bmode_tissue import (
    BACKGROUND,
    FLUID,
    PLACENTA,
    Noise,
    Patient,
    Structure,
    circular_noise,
    echo,
    paint,
    slow_field,
    tinted,
    wall,
    waves,
)
from medtune.benchmarks.simulators.shapes import Pose, blob, overlap

Part = Literal["head", "chest", "abdomen", "legs"]
CENTRES_MM: dict[Part, float] = {"head": -44.0, "chest": 9.0, "abdomen": 38.0, "legs": 82.0}
"""The height along the body (see `solids`) at which each part is seen best, for a fetus of size 1."""
PARTS: tuple[Part, ...] = ("head", "chest", "abdomen", "legs")
Side = Literal["near", "far"]
NUM_FRAMES = 12
FRAMES_PER_S = 6.0
SLICE_MM = 2.5
"""The thickness of the beam: planes at this distance from each other, or farther apart, share no speckle."""
TEXTURE_MM = 12.0
_JITTER_MM = 5.0
_WANDER_MM, _WANDER_RAD = 2.0, 0.06
Values = TypeVar("Values", NDArray[np.float32], NDArray[np.complex64])


class Truth(NamedTuple):
    """The true answers to the questions about one sweep."""

    first: Part
    last: Part
    placenta: Side  # The side of the womb on which the placenta lies.


def draw_patient(rng: np.random.Generator) -> Patient:
    return Patient(draw_device(rng), size=float(rng.uniform(0.74, 0.94)), wall_mm=float(rng.uniform(6, 12)))


def sweep(patient: Patient, truth: Truth, *, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Returns the grey frames (T, H, W) of a sweep, from the first part of the body to the last."""
    organs = body(patient.size, rng)
    planes = _path(patient, truth, rng)
    womb = _womb(patient, truth.placenta, rng)
    lines, grid = beams(patient.device), pixels(patient.device)
    shape = lines.x_mm_DL.shape
    seeds = rng.integers(0, 2**32, size=3).tolist()
    scatterers = _Layers(lambda layer: circular_noise(shape, layer), SLICE_MM, seeds[0])
    roughness = _Layers(lambda layer: layer.standard_normal(shape, dtype=np.float32), SLICE_MM, seeds[1])
    slow = _Layers(lambda layer: slow_field(shape, layer), TEXTURE_MM, seeds[2])
    frames = []
    for plane in planes:
        scene = (*womb, *cut(organs, plane))
        slow_DL = slow.at(plane.w_mm)
        maps = paint(scene, background=BACKGROUND, x_mm_DL=lines.x_mm_DL, z_mm_DL=lines.z_mm_DL, slow_DL=slow_DL)
        noise = Noise(scatterers.at(plane.w_mm), roughness.at(plane.w_mm), circular_noise(shape, rng))
        grey_HW = scan_convert(echo(maps, device=patient.device, lines=lines, noise=noise), grid)
        frames.append((grey_HW * 255).round().astype(np.uint8))
    return np.stack(frames)


def _path(patient: Patient, truth: Truth, rng: np.random.Generator) -> list[Plane]:
    depth_mm, size = patient.device.depth_mm, patient.size
    ends_mm = [
        size * CENTRES_MM[part] + float(rng.uniform(-_JITTER_MM, _JITTER_MM)) for part in (truth.first, truth.last)
    ]
    steps = np.cumsum(rng.uniform(0.7, 1.3, size=NUM_FRAMES))
    w_mm_T = np.interp(steps, [steps[0], steps[-1]], ends_mm)
    centre = Pose(
        float(rng.uniform(-0.06, 0.06)) * depth_mm,
        max(float(rng.uniform(0.48, 0.6)) * depth_mm, patient.wall_mm + 36 * size),
        float(rng.uniform(-np.pi, np.pi)),
        int(rng.choice([-1, 1])),
    )
    drift = gaussian_filter1d(rng.standard_normal((3, NUM_FRAMES)), 3.0, axis=1)
    return [
        Plane(
            Pose(
                centre.x_mm + _WANDER_MM * float(drift[0, t]),
                centre.z_mm + _WANDER_MM * float(drift[1, t]),
                centre.angle_rad + _WANDER_RAD * float(drift[2, t]),
                centre.mirror,
            ),
            float(w_mm_T[t]),
        )
        for t in range(NUM_FRAMES)
    ]


def _womb(patient: Patient, placenta: Side, rng: np.random.Generator) -> tuple[Structure, ...]:
    depth_mm = patient.device.depth_mm
    layers = wall(rng, thickness_mm=patient.wall_mm)
    top_mm, bottom_mm = patient.wall_mm + 2, depth_mm * float(rng.uniform(0.96, 1.04))
    half_mm = (bottom_mm - top_mm) / 2
    fluid = blob(Pose(0.0, top_mm + half_mm), a_mm=depth_mm * 0.62, b_mm=half_mm, ripples=waves(rng, size=0.03))
    z_mm = top_mm + 4 if placenta == "near" else bottom_mm - 6
    tissue = blob(
        Pose(depth_mm * float(rng.uniform(-0.1, 0.1)), z_mm),
        a_mm=depth_mm * 0.42,
        b_mm=float(rng.uniform(11, 14)),
        ripples=waves(rng, size=0.1),
    )
    uterus = layers[-1].shape
    return (
        *layers,
        Structure(overlap(fluid, uterus), FLUID),
        Structure(overlap(tissue, uterus), tinted(PLACENTA, rng)),
    )


class _Layers(Generic[Values]):
    def __init__(self, draw: Callable[[np.random.Generator], Values], step_mm: float, seed: int) -> None:
        self._draw: Callable[[np.random.Generator], Values] = draw
        self._step_mm = step_mm
        self._seed = seed
        self._known: dict[int, Values] = {}

    def at(self, w_mm: float) -> Values:
        below, share = divmod(w_mm / self._step_mm, 1.0)
        turn_rad = share * np.pi / 2
        first, second = self._layer(int(below)), self._layer(int(below) + 1)
        return np.float32(np.cos(turn_rad)) * first + np.float32(np.sin(turn_rad)) * second

    def _layer(self, number: int) -> Values:
        if number not in self._known:
            # A layer's number may be negative, a seed may not.
            self._known[number] = self._draw(np.random.default_rng([self._seed, number % 2**32]))
        return self._known[number]
