"""Simulates one sweep of the probe along the fetus: its path, and the frames that the scanner shows on the way.

Speckle and texture are fixed to places in the body, so a plane that is seen twice looks the same except for electronic
noise. A clip played backwards is therefore a valid sweep in the other direction, and a model that ignores the order of
the frames cannot tell the two directions apart.

Legend of array names: T frames, D depth samples, L scan lines, H rows, W columns.

The body of a simulated fetus in three dimensions, from the crown to the thighs, and the places of its parts.

The sizes are those at about 24 weeks, as in the source fetal_phantom. The arms are left out.

Solids in the body of a fetus, and the shapes that a plane across the body cuts out of them.

In the coordinates of the body, u runs across it, v from front to back, and w (the height) from the head to the feet.
All are in mm, and w is 0 where the chest begins.

Legend of array names: N points, in an array of any shape.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from medtune.benchmarks.simulators.bmode_device import (
    Mask,
    Millimetres,
    Pose,
    Shape,
    beams,
    blob,
    draw_device,
    overlap,
    pixels,
    scan_convert,
)
from medtune.benchmarks.simulators.bmode_tissue import (
    BACKGROUND,
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
    PLACENTA,
    SKULL,
    SOFT,
    Noise,
    Patient,
    Structure,
    Tissue,
    brighter,
    circular_noise,
    echo,
    paint,
    slow_field,
    tinted,
    wall,
    waves,
)

Inside = Callable[[Millimetres, Millimetres, float], Mask]
"""Takes the u and v of points and the height w of their plane, and returns which of them lie inside a solid."""

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


class Solid(NamedTuple):
    """A solid in the body."""

    inside: Inside
    low_mm: float  # The smallest height at which a plane meets the solid.
    high_mm: float  # The largest height at which a plane meets the solid.


class Point(NamedTuple):
    """A point in the body, in mm."""

    u_mm: float
    v_mm: float
    w_mm: float


class Organ(NamedTuple):
    """A solid and the tissue that fills it; later organs are painted over earlier ones."""

    solid: Solid
    tissue: Tissue


class Plane(NamedTuple):
    """A cut across the body."""

    pose: Pose  # The point at which the body's axis meets the scan plane, and the direction of the body in it.
    w_mm: float  # The height of the cut along the body.


def ellipsoid(centre: Point, half_mm: Point) -> Solid:
    """Returns a filled ellipsoid; `half_mm` holds its half axes along u, v and w."""

    def inside(u_N: Millimetres, v_N: Millimetres, w_mm: float) -> Mask:
        rest = 1 - ((w_mm - centre.w_mm) / half_mm.w_mm) ** 2
        across_N = ((u_N - centre.u_mm) / half_mm.u_mm) ** 2 + ((v_N - centre.v_mm) / half_mm.v_mm) ** 2
        return np.asarray(across_N <= rest)

    return Solid(inside, centre.w_mm - half_mm.w_mm, centre.w_mm + half_mm.w_mm)


def capsule(start: Point, end: Point, *, width_mm: float) -> Solid:
    """Returns a rod with round ends between two points."""
    along = Point(*(b - a for a, b in zip(start, end, strict=True)))
    length2 = sum(each * each for each in along)

    def inside(u_N: Millimetres, v_N: Millimetres, w_mm: float) -> Mask:
        du_N, dv_N, dw = u_N - start.u_mm, v_N - start.v_mm, w_mm - start.w_mm
        share_N = np.clip((du_N * along.u_mm + dv_N * along.v_mm + dw * along.w_mm) / length2, 0, 1)
        across_N = (du_N - share_N * along.u_mm) ** 2 + (dv_N - share_N * along.v_mm) ** 2
        return np.asarray(across_N + (dw - share_N * along.w_mm) ** 2 <= (width_mm / 2) ** 2)

    low_mm, high_mm = sorted((start.w_mm, end.w_mm))
    return Solid(inside, low_mm - width_mm / 2, high_mm + width_mm / 2)


def cut(organs: Iterable[Organ], plane: Plane) -> tuple[Structure, ...]:
    """Returns the structures that a plane shows of the organs that it meets, in the order of the organs."""
    return tuple(
        Structure(_shape(organ.solid, plane), organ.tissue)
        for organ in organs
        if organ.solid.low_mm <= plane.w_mm <= organ.solid.high_mm
    )


def _shape(solid: Solid, plane: Plane) -> Shape:
    def shape(x_N: Millimetres, z_N: Millimetres) -> Mask:
        u_N, v_N = plane.pose.local(x_N, z_N)
        return solid.inside(u_N, v_N, plane.w_mm)

    return shape


def body(size: float, rng: np.random.Generator) -> tuple[Organ, ...]:
    """Returns the organs of a fetus (size 1: about 27 weeks), with tissues a little brighter or darker at random."""
    return (*_scaled_head(size, rng), *_trunk(size, rng), *_legs(size, rng))


def _scaled_head(size: float, rng: np.random.Generator) -> Iterator[Organ]:
    def at(u: float, v: float, w: float) -> Point:
        return Point(u * size, v * size, w * size)

    yield Organ(capsule(at(0, 4, -26), at(0, 4, 2), width_mm=25 * size), tinted(SOFT, rng))
    yield Organ(ellipsoid(at(0, 0, -44), at(29, 37, 32)), SKULL)
    yield Organ(ellipsoid(at(0, 0, -44), at(26.8, 34.8, 29.8)), tinted(BRAIN, rng))
    yield Organ(ellipsoid(at(0, 0, -46), at(0.9, 33, 27)), MEMBRANE)
    for side in (-1, 1):
        yield Organ(ellipsoid(at(side * 11, 8, -48), at(3.2, 11, 8)), CHOROID)
        yield Organ(ellipsoid(at(side * 5, -4, -42), at(4.5, 7, 6)), brighter(BRAIN, -6))
        yield Organ(ellipsoid(at(side * 10, -27, -26), at(7, 6.5, 6)), FLUID)


def _trunk(size: float, rng: np.random.Generator) -> Iterator[Organ]:
    def at(u: float, v: float, w: float) -> Point:
        return Point(u * size, v * size, w * size)

    chest, belly = (at(0, 0, 10), at(27, 26, 25)), (at(0, 0, 39), at(30, 29, 28))
    for centre, half in (chest, belly):
        yield Organ(ellipsoid(centre, half), brighter(MEMBRANE, -3))
    for (centre, half), tissue in ((chest, tinted(LUNG, rng)), (belly, tinted(LIVER, rng))):
        inside = Point(*(each - 1.6 * size for each in half))
        yield Organ(ellipsoid(centre, inside), tissue)
    for angle_rad in (0.3, 0.9, 2.2, 2.8, 3.6, 5.8):
        u, v = 24 * np.cos(angle_rad), 23 * np.sin(angle_rad)
        yield Organ(capsule(at(u, v, -2), at(u * 1.02, v * 1.02, 22), width_mm=3.0 * size), CARTILAGE)
    yield Organ(ellipsoid(at(-3, -5, 9), at(15, 12, 12)), tinted(MYOCARDIUM, rng))
    for u, v in ((-8, -8), (-9, -1), (2, -9), (2, -2)):
        yield Organ(ellipsoid(at(u, v, 9), at(4.6, 3.4, 7)), FLUID)
    yield Organ(ellipsoid(at(-14, -1, 37), at(9.5, 6, 9)), FLUID)
    yield Organ(capsule(at(0, -26, 42), at(3, -8, 36), width_mm=6.0 * size), FLUID)
    for side in (-1, 1):
        yield Organ(ellipsoid(at(side * 12, 11, 51), at(8, 6, 9)), tinted(KIDNEY, rng))
    yield Organ(ellipsoid(at(0, -10, 60), at(7, 6, 6)), FLUID)
    yield Organ(capsule(at(0, 19, -20), at(0, 20, 62), width_mm=12 * size), brighter(SOFT, 3))
    for u, v in ((0.0, 17.0), (3.4, 21.5), (-3.4, 21.5)):
        yield Organ(capsule(at(u, v, -20), at(u, v, 62), width_mm=3.4 * size), CARTILAGE)


def _legs(size: float, rng: np.random.Generator) -> Iterator[Organ]:
    def at(u: float, v: float, w: float) -> Point:
        return Point(u * size, v * size, w * size)

    muscle = tinted(brighter(MUSCLE, 4), rng)
    for side in (-1, 1):
        hip, knee = at(side * 13, 0, 64), at(side * 15, -6, 104)
        yield Organ(capsule(hip, knee, width_mm=23 * size), brighter(MEMBRANE, -4))
        yield Organ(capsule(hip, knee, width_mm=20.4 * size), muscle)
        yield Organ(capsule(hip, knee, width_mm=4.0 * size), BONE)


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
