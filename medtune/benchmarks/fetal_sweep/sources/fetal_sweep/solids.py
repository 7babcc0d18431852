"""Solids in the body of a fetus, and the shapes that a plane across the body cuts out of them.

In the coordinates of the body, u runs across it, v from front to back, and w (the height) from the head to the feet.
All are in mm, and w is 0 where the chest begins.

Legend of array names: N points, in an array of any shape.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from medtune.benchmarks.simulators.bmode.shapes import Mask, Millimetres, Pose, Shape
from medtune.benchmarks.simulators.bmode.tissue import Structure, Tissue

Inside = Callable[[Millimetres, Millimetres, float], Mask]
"""Takes the u and v of points and the height w of their plane, and returns which of them lie inside a solid."""


class Solid(NamedTuple):
    """A solid in the body.

    Attributes:
        inside: Returns which points lie inside the solid.
        low_mm: The smallest height at which a plane meets the solid.
        high_mm: The largest height at which a plane meets the solid.
    """

    inside: Inside
    low_mm: float
    high_mm: float


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
    """A cut across the body.

    Attributes:
        pose: The point at which the body's axis meets the scan plane, and the direction of the body in it.
        w_mm: The height of the cut along the body.
    """

    pose: Pose
    w_mm: float


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
