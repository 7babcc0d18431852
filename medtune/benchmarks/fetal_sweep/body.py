"""The body of a simulated fetus in three dimensions, from the crown to the thighs, and the places of its parts.

The sizes are those at about 24 weeks, as in the source fetal_phantom. The arms are left out.

It is made of solids, out of which a plane across the body cuts shapes. In the coordinates of the body, u runs across
it, v from front to back, and w (the height) from the head to the feet. All are in mm, and w is 0 where the chest
begins.

Legend of array names: N points, in an array of any shape.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

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
)
from medtune.benchmarks.simulators.shapes import Mask, Millimetres, Pose, Shape

Inside = Callable[[Millimetres, Millimetres, float], Mask]
"""Takes the u and v of points and the height w of their plane, and returns which of them lie inside a solid."""


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
