"""Solids in the fetus's own space, each a function that says which points lie inside; a plane cuts them into shapes.

u runs across the body, v from front to back, w from the head to the feet, all in mm; w is 0 where the chest begins.

Legend of array names: N any shape of points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from medtune.benchmarks.simulators.bmode.shapes import Mask, Millimetres, Pose, Shape
from medtune.benchmarks.simulators.bmode.tissue import Structure, Tissue

Inside = Callable[[Millimetres, Millimetres, float], Mask]
"""(u_N, v_N, w) -> which points lie inside."""


class Solid(NamedTuple):
    """A body in space.

    Attributes:
        inside: Says which points the solid holds.
        low_mm: No plane below this height meets it.
        high_mm: No plane above this height meets it.
    """

    inside: Inside
    low_mm: float
    high_mm: float


class Point(NamedTuple):
    """A place in the fetus, in mm."""

    u_mm: float
    v_mm: float
    w_mm: float


class Organ(NamedTuple):
    """A solid and what fills it; later organs are painted over earlier ones."""

    solid: Solid
    tissue: Tissue


class Plane(NamedTuple):
    """A cut across the body.

    Attributes:
        pose: Where the body's axis meets the scan plane, and how the body is turned in it.
        w_mm: At which height of the body.
    """

    pose: Pose
    w_mm: float


def ellipsoid(centre: Point, half_mm: Point) -> Solid:
    """Returns a filled ellipsoid with these half axes."""

    def inside(u_N: Millimetres, v_N: Millimetres, w_mm: float) -> Mask:
        rest = 1 - ((w_mm - centre.w_mm) / half_mm.w_mm) ** 2
        across_N = ((u_N - centre.u_mm) / half_mm.u_mm) ** 2 + ((v_N - centre.v_mm) / half_mm.v_mm) ** 2
        return np.asarray(across_N <= rest)

    return Solid(inside, centre.w_mm - half_mm.w_mm, centre.w_mm + half_mm.w_mm)


def capsule(start: Point, end: Point, *, width_mm: float) -> Solid:
    """Returns a round-ended rod between two places."""
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
    """Returns what the plane shows of the organs that it meets, in their order."""
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
