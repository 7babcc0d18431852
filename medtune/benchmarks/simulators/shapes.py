"""Shapes in the plane of a scan, in millimetres: functions that return which points lie inside.

Legend of array names: N points in an array of any shape, K corners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Millimetres = NDArray[np.float32]
Mask = NDArray[np.bool_]
Shape = Callable[[Millimetres, Millimetres], Mask]


class Local(NamedTuple):
    """Points in the coordinates of a pose, in mm: `u_N` along the axis of the pose, `v_N` across it."""

    u_N: Millimetres
    v_N: Millimetres


@dataclass(frozen=True, slots=True)
class Pose:
    """The position and direction of a shape in the scan plane; x runs to the right, z away from the probe."""

    x_mm: float  # The x coordinate of the shape's centre.
    z_mm: float  # The z coordinate of the shape's centre.
    angle_rad: float = 0.0  # The angle from the x axis to the shape's u axis, positive towards greater depth.
    mirror: int = 1  # -1 if the shape's v axis is flipped, else 1.

    def local(self, x_N: Millimetres, z_N: Millimetres) -> Local:
        """Returns the points, given in mm in the scan plane, in the coordinates of this pose."""
        cos, sin = np.float32(np.cos(self.angle_rad)), np.float32(np.sin(self.angle_rad))
        dx_N, dz_N = x_N - np.float32(self.x_mm), z_N - np.float32(self.z_mm)
        return Local(cos * dx_N + sin * dz_N, np.float32(self.mirror) * (cos * dz_N - sin * dx_N))

    def at(self, u_mm: float, v_mm: float, angle_rad: float = 0.0) -> Pose:
        """Returns the pose of a part that lies at (u, v) in this pose's coordinates and is turned by `angle_rad`."""
        cos, sin, v_mm = np.cos(self.angle_rad), np.sin(self.angle_rad), self.mirror * v_mm
        return Pose(
            self.x_mm + float(cos * u_mm - sin * v_mm),
            self.z_mm + float(sin * u_mm + cos * v_mm),
            self.angle_rad + self.mirror * angle_rad,
            self.mirror,
        )


def ellipse(pose: Pose, *, a_mm: float, b_mm: float) -> Shape:
    """Returns a filled ellipse with the half axis `a_mm` along the pose's axis and `b_mm` across it."""

    def inside(x_N: Millimetres, z_N: Millimetres) -> Mask:
        u_N, v_N = pose.local(x_N, z_N)
        return np.asarray((u_N / a_mm) ** 2 + (v_N / b_mm) ** 2 <= 1)

    return inside


def blob(pose: Pose, *, a_mm: float, b_mm: float, ripples: Sequence[tuple[int, float, float]]) -> Shape:
    """Returns an ellipse with a wavy margin: its radius is multiplied by 1 + the sum of the `ripples`.

    One ripple is `size * cos(count * angle + phase)`.

    Args:
        ripples: The waves of the margin, each as (count, size, phase): the number of waves around the margin, their
            height as a share of the radius, and their phase in rad.
    """
    farthest = 1 + sum(abs(size) for _, size, _ in ripples)

    def inside(x_N: Millimetres, z_N: Millimetres) -> Mask:
        u_N, v_N = pose.local(x_N, z_N)
        radius_N = np.hypot(u_N / np.float32(a_mm), v_N / np.float32(b_mm))
        inside_N = radius_N <= farthest
        angles_rad = np.arctan2(v_N[inside_N] / np.float32(b_mm), u_N[inside_N] / np.float32(a_mm))
        limits = np.ones_like(angles_rad)
        for count, size, phase_rad in ripples:
            limits += np.float32(size) * np.cos(np.float32(count) * angles_rad + np.float32(phase_rad))
        inside_N[inside_N] = radius_N[inside_N] <= limits
        return np.asarray(inside_N)

    return inside


def tube(pose: Pose, points_mm_K: Sequence[tuple[float, float]], *, width_mm: float) -> Shape:
    """Returns a tube with round ends along the line through `points_mm_K`, (u, v) in the pose's coordinates."""

    def inside(x_N: Millimetres, z_N: Millimetres) -> Mask:
        u_N, v_N = pose.local(x_N, z_N)
        near_N = np.zeros(u_N.shape, dtype=np.bool_)
        for (u0, v0), (u1, v1) in pairwise(points_mm_K):
            du, dv = u1 - u0, v1 - v0
            along_N = np.clip(((u_N - u0) * du + (v_N - v0) * dv) / (du * du + dv * dv), 0, 1)
            near_N |= (u_N - u0 - along_N * du) ** 2 + (v_N - v0 - along_N * dv) ** 2 <= (width_mm / 2) ** 2
        return near_N

    return inside


def rod(pose: Pose, *, length_mm: float, width_mm: float) -> Shape:
    """Returns a rod with round ends, of full length `length_mm`, whose middle is the centre of the pose."""
    half_mm = max((length_mm - width_mm) / 2, 0.01)
    return tube(pose, [(-half_mm, 0.0), (half_mm, 0.0)], width_mm=width_mm)


def beyond(pose: Pose, *, wave_mm: float, wavelength_mm: float) -> Shape:
    """Returns the half plane on the positive v side of the pose's u axis, with a wavy border."""

    def inside(x_N: Millimetres, z_N: Millimetres) -> Mask:
        u_N, v_N = pose.local(x_N, z_N)
        return np.asarray(v_N >= np.float32(wave_mm) * np.sin(u_N * np.float32(2 * np.pi / wavelength_mm)))

    return inside


def overlap(first: Shape, second: Shape) -> Shape:
    """Returns the points inside both shapes."""
    return lambda x_N, z_N: first(x_N, z_N) & second(x_N, z_N)


def union(*shapes: Shape) -> Shape:
    """Returns the points inside any of `shapes`."""

    def inside(x_N: Millimetres, z_N: Millimetres) -> Mask:
        return np.asarray(np.logical_or.reduce([shape(x_N, z_N) for shape in shapes]))

    return inside
