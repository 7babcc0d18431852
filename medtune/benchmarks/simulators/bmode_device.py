"""The simulated scanner: its settings, the positions of its scan lines, and the conversion of scan lines into pixels.

Legend of array names: D depth samples, L scan lines, H rows, W columns, N points in an array of any shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from medtune.benchmarks.simulators.shapes import Mask, Millimetres

Geometry = Literal["sector", "linear"]
NUM_DEPTHS = 320
NUM_LINES = 144
IMAGE_SIZE = 224


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
