"""The simulated scanner: its settings, the positions of its scan lines, and the conversion of scan lines into pixels.

Beside it, shapes in the scan plane, in millimetres: functions that return which points lie inside.

Legend of array names: D depth samples, L scan lines, H rows, W columns, N points in an array of any shape, K corners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

Millimetres = NDArray[np.float32]
Mask = NDArray[np.bool_]
Shape = Callable[[Millimetres, Millimetres], Mask]

Geometry = Literal["sector", "linear"]
NUM_DEPTHS = 320
NUM_LINES = 144
IMAGE_SIZE = 224


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


@dataclass(frozen=True, slots=True)
class Device:
    """A scanner and its settings."""

    # The shape of the scanned field: a sector from a curved probe, or a rectangle from a linear probe.
    geometry: Geometry
    frequency_mhz: float  # Centre frequency.
    depth_mm: float  # Depth of the scanned field.
    focus_mm: float  # The depth at which the beam is focused.
    aperture_mm: float  # Width of the part of the probe that sends and receives.
    opening_rad: float  # The full angle of a sector.
    probe_radius_mm: float  # The radius of the curved probe that scans a sector.
    width_mm: float  # The length of a linear probe.
    gain_db: float  # The gain that is added to every echo.
    tgc_error_db_per_cm: float  # The error of the time-gain compensation, per cm of depth.
    dynamic_range_db: float  # The range of echoes between black and white.
    noise_db: float  # The level of electronic noise before time-gain compensation.
    zoom: float  # The share of the image's side that the scanned field fills, 0 to 1.
    # The position of the field in the image, across and down, each from 0 (left or top) to 1 (right or bottom).
    shift: tuple[float, float]


def draw_device(rng: np.random.Generator) -> Device:
    is_sector = bool(rng.random() < 0.65)
    depth_mm = float(rng.uniform(75, 98))
    return Device(
        geometry="sector" if is_sector else "linear",
        frequency_mhz=float(rng.uniform(3.0, 5.0)),
        depth_mm=depth_mm,
        focus_mm=depth_mm * float(rng.uniform(0.4, 0.7)),
        aperture_mm=float(rng.uniform(18, 26)),
        opening_rad=float(np.deg2rad(rng.uniform(52, 72))),
        probe_radius_mm=float(rng.uniform(30, 55)),
        width_mm=depth_mm * float(rng.uniform(0.9, 1.1)),
        gain_db=float(rng.uniform(-4, 6)),
        tgc_error_db_per_cm=float(rng.uniform(-0.5, 0.4)),
        dynamic_range_db=float(rng.uniform(50, 60)),
        noise_db=float(rng.uniform(-82, -66)),
        zoom=float(rng.uniform(0.9, 1.0)) * (1.0 if is_sector else 0.85),
        shift=(float(rng.random()), float(rng.random())),
    )


@dataclass(frozen=True, slots=True)
class Beams:
    """The positions of the samples along the scan lines."""

    x_mm_DL: Millimetres  # Lateral position of each sample.
    z_mm_DL: Millimetres  # Depth of each sample below the probe's foremost point.
    path_mm_D: Millimetres  # Distance from the probe along a scan line, for each depth sample.
    line_spacing_mm_D: Millimetres  # Distance between neighbouring scan lines, for each depth sample.


def beams(device: Device) -> Beams:
    """Returns the sample positions of a device's scan lines."""
    path_mm_D = np.linspace(0, device.depth_mm, NUM_DEPTHS, dtype=np.float32)
    if device.geometry == "linear":
        across_mm_L = np.linspace(-device.width_mm / 2, device.width_mm / 2, NUM_LINES, dtype=np.float32)
        x_mm_DL, z_mm_DL = np.meshgrid(across_mm_L, path_mm_D)
        spacing_mm_D = np.full_like(path_mm_D, device.width_mm / (NUM_LINES - 1))
        return Beams(x_mm_DL, z_mm_DL, path_mm_D, spacing_mm_D)
    angle_rad_L = np.linspace(-device.opening_rad / 2, device.opening_rad / 2, NUM_LINES, dtype=np.float32)
    radius_mm_D = path_mm_D + np.float32(device.probe_radius_mm)
    x_mm_DL = radius_mm_D[:, None] * np.sin(angle_rad_L)
    z_mm_DL = radius_mm_D[:, None] * np.cos(angle_rad_L) - np.float32(device.probe_radius_mm)
    spacing_mm_D = radius_mm_D * np.float32(device.opening_rad / (NUM_LINES - 1))
    return Beams(x_mm_DL, z_mm_DL, path_mm_D, spacing_mm_D)


def in_field(device: Device, x_mm_N: NDArray[np.float64], z_mm_N: NDArray[np.float64]) -> Mask:
    """Returns whether the scan lines of a device reach each point (positions in mm, arrays of any shape)."""
    if device.geometry == "linear":
        return np.asarray((np.abs(x_mm_N) <= device.width_mm / 2) & (z_mm_N >= 0) & (z_mm_N <= device.depth_mm))
    path_mm_N = np.hypot(x_mm_N, z_mm_N + device.probe_radius_mm) - device.probe_radius_mm
    angle_rad_N = np.arctan2(x_mm_N, z_mm_N + device.probe_radius_mm)
    is_deep_N = (path_mm_N >= 0) & (path_mm_N <= device.depth_mm)
    return np.asarray(is_deep_N & (np.abs(angle_rad_N) <= device.opening_rad / 2))


@dataclass(frozen=True, slots=True)
class Pixels:
    """The positions of the image's pixels."""

    x_mm_HW: Millimetres  # Lateral position of each pixel.
    z_mm_HW: Millimetres  # Depth of each pixel below the probe's foremost point.
    depth_HW: NDArray[np.float32]  # The depth sample at each pixel, as a fractional index.
    line_HW: NDArray[np.float32]  # The scan line at each pixel, as a fractional index.
    seen_HW: Mask  # Whether the pixel lies within the scanned field.


def pixels(device: Device) -> Pixels:
    """Returns the pixel positions of a device's image, which has `IMAGE_SIZE` rows and columns of square pixels."""
    is_sector = device.geometry == "sector"
    half_rad, radius_mm = device.opening_rad / 2, device.probe_radius_mm
    half_mm = (radius_mm + device.depth_mm) * np.sin(half_rad) if is_sector else device.width_mm / 2
    top_mm = radius_mm * (np.cos(half_rad) - 1) if is_sector else 0.0
    side_mm = max(2 * half_mm, device.depth_mm - top_mm) / device.zoom
    left_mm = -half_mm - device.shift[0] * (side_mm - 2 * half_mm)
    upper_mm = top_mm - device.shift[1] * (side_mm - device.depth_mm + top_mm)
    steps_mm = (np.arange(IMAGE_SIZE, dtype=np.float32) + 0.5) * np.float32(side_mm / IMAGE_SIZE)
    x_mm_HW, z_mm_HW = np.meshgrid(np.float32(left_mm) + steps_mm, np.float32(upper_mm) + steps_mm)
    if is_sector:
        path_mm_HW = np.hypot(x_mm_HW, z_mm_HW + np.float32(radius_mm)) - np.float32(radius_mm)
        across_HW = np.arctan2(x_mm_HW, z_mm_HW + np.float32(radius_mm)) / np.float32(2 * half_rad)
    else:
        path_mm_HW, across_HW = z_mm_HW, x_mm_HW / np.float32(device.width_mm)
    depth_HW = path_mm_HW * np.float32((NUM_DEPTHS - 1) / device.depth_mm)
    line_HW = (across_HW + np.float32(0.5)) * np.float32(NUM_LINES - 1)
    seen_HW = (depth_HW >= 0) & (depth_HW <= NUM_DEPTHS - 1) & (line_HW >= 0) & (line_HW <= NUM_LINES - 1)
    return Pixels(x_mm_HW, z_mm_HW, depth_HW, line_HW, seen_HW)


def scan_convert(grey_DL: NDArray[np.float32], grid: Pixels) -> NDArray[np.float32]:
    """Returns the image (H, W), 0 to 1, of the samples along the scan lines; 0 outside the scanned field."""
    grey_HW = map_coordinates(grey_DL, [grid.depth_HW, grid.line_HW], order=1, mode="constant", cval=0.0)
    return np.where(grid.seen_HW, grey_HW, np.float32(0))
