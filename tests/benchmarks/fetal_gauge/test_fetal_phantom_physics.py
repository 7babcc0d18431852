"""Tests the physics of the phantom: speckle, point spread, shadow, enhancement, geometry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks.simulators.bmode_device import (
    IMAGE_SIZE,
    NUM_DEPTHS,
    NUM_LINES,
    Device,
    beams,
    draw_device,
    in_field,
    pixels,
    scan_convert,
)
from medtune.benchmarks.simulators.bmode_tissue import (
    BONE,
    FLUID,
    SOFT,
    Structure,
    Tissue,
    axial_sigma_mm,
    compress,
    draw_noise,
    echo,
    lateral_sigma_mm,
    paint,
    point_spread,
    slow_field,
    specular,
    two_way_loss_db,
)
from medtune.benchmarks.simulators.shapes import Pose, blob, ellipse, rod, tube

SEEDS = st.integers(0, 10_000)


def linear_device() -> Device:
    return Device(
        geometry="linear",
        frequency_mhz=4.0,
        depth_mm=90.0,
        focus_mm=45.0,
        aperture_mm=22.0,
        opening_rad=1.1,
        probe_radius_mm=40.0,
        width_mm=90.0,
        gain_db=0.0,
        tgc_error_db_per_cm=0.0,
        dynamic_range_db=60.0,
        noise_db=-110.0,
        zoom=1.0,
        shift=(0.5, 0.5),
    )


def grey_of(structures: tuple[Structure, ...], *, seed: int = 0) -> np.ndarray:
    device, rng = linear_device(), np.random.default_rng(seed)
    lines = beams(device)
    flat = Tissue(echo_db=-30, texture_db=0)
    slow_DL = slow_field(lines.x_mm_DL.shape, rng)
    maps = paint(structures, background=flat, x_mm_DL=lines.x_mm_DL, z_mm_DL=lines.z_mm_DL, slow_DL=slow_DL)
    return echo(maps, device=device, lines=lines, noise=draw_noise(lines.x_mm_DL.shape, rng))


@pytest.mark.parametrize("lateral_samples", [0.8, 2.5])
def test_speckle_envelope_is_rayleigh(lateral_samples: float) -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((2, 800, 600))
    field_DL = point_spread(
        ((noise[0] + 1j * noise[1]) / np.sqrt(2)).astype(np.complex64),
        axial_samples=1.2,
        lateral_samples_D=np.full(800, lateral_samples, dtype=np.float32),
    )
    envelope = np.abs(field_DL)
    assert envelope.mean() / envelope.std() == pytest.approx(1.91, abs=0.04)
    assert (envelope**2).mean() == pytest.approx(1.0, abs=0.03)
    # Rayleigh: P(A > 2 rms) = exp(-4).
    assert (envelope > 2).mean() == pytest.approx(np.exp(-4), rel=0.1)


def test_speckle_is_correlated_over_the_point_spread() -> None:
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((2, 300, 600))
    field_DL = point_spread(
        (noise[0] + 1j * noise[1]).astype(np.complex64),
        axial_samples=1.0,
        lateral_samples_D=np.linspace(1, 4, 300, dtype=np.float32),
    )

    def correlation(rows: np.ndarray, lag: int) -> float:
        return float(np.abs((rows[:, lag:] * rows[:, :-lag].conj()).mean() / (np.abs(rows) ** 2).mean()))

    # Blurred white noise: correlation exp(-lag^2 / (4 sigma^2)).
    assert correlation(field_DL[-10:], 4) == pytest.approx(np.exp(-16 / 64), abs=0.12)
    assert correlation(field_DL[:10], 4) < 0.12


def test_point_spread_is_finer_along_than_across_and_finest_near_the_focus() -> None:
    path_mm_D = np.linspace(0, 90, 91, dtype=np.float32)
    lateral_mm_D = lateral_sigma_mm(path_mm_D, frequency_mhz=4.0, aperture_mm=22.0, focus_mm=50.0)
    assert lateral_mm_D.argmin() == 50
    assert (np.diff(lateral_mm_D[:51]) < 0).all()
    assert (np.diff(lateral_mm_D[50:]) > 0).all()
    assert axial_sigma_mm(frequency_mhz=4.0) < lateral_mm_D.min()


def test_two_way_loss_by_hand() -> None:
    # 0.5 dB/cm/MHz at 4 MHz over 2 cm and back: 8 dB.
    loss_db_DL = two_way_loss_db(np.full((20, 1), 0.5, dtype=np.float32), frequency_mhz=4.0, step_mm=1.0)
    assert loss_db_DL[-1, 0] == pytest.approx(8.0)


def test_compress_by_hand() -> None:
    grey_DL = compress(np.full((9, 9), 0.1, dtype=np.float32), gain_db=0.0, dynamic_range_db=50.0)
    assert grey_DL == pytest.approx(np.full((9, 9), 0.6), abs=1e-5)
    assert compress(np.zeros((9, 9), dtype=np.float32), gain_db=0.0, dynamic_range_db=50.0).max() == 0


def test_specular_needs_a_beam_head_on() -> None:
    across_DL = np.full((100, 100), 1.5, dtype=np.float32)
    along_DL = across_DL.copy()
    across_DL[50:] = along_DL[:, 50:] = 3.0
    spacing_mm_D = np.full(100, 1.0, dtype=np.float32)
    assert specular(across_DL, depth_mm=99.0, line_mm_D=spacing_mm_D).max() > 0.1
    assert specular(along_DL, depth_mm=99.0, line_mm_D=spacing_mm_D).max() < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_bone_casts_a_shadow(seed: int) -> None:
    grey_DL = grey_of((Structure(rod(Pose(0, 30), length_mm=30, width_mm=3), BONE),), seed=seed)
    behind = grey_DL[160:300, 60:84].mean()
    beside = grey_DL[160:300, [*range(5, 30), *range(115, 140)]].mean()
    assert behind < beside - 0.2


@pytest.mark.parametrize("seed", range(3))
def test_fluid_is_black_and_enhances_what_lies_behind(seed: int) -> None:
    grey_DL = grey_of((Structure(ellipse(Pose(0, 35), a_mm=15, b_mm=13), FLUID),), seed=seed)
    beside = grey_DL[200:300, [*range(5, 30), *range(115, 140)]].mean()
    assert grey_DL[120:130, 70:74].max() < 0.1
    assert grey_DL[200:300, 65:79].mean() > beside + 0.05


@given(seed=SEEDS)
def test_seen_pixels_are_those_in_the_field(seed: int) -> None:
    device = draw_device(np.random.default_rng(seed))
    grid = pixels(device)
    inside_HW = in_field(device, grid.x_mm_HW.astype(np.float64), grid.z_mm_HW.astype(np.float64))
    assert (inside_HW != grid.seen_HW).mean() < 1e-3
    assert 0.3 < grid.seen_HW.mean() < 1


@given(seed=SEEDS)
def test_scan_conversion_puts_samples_where_they_were_taken(seed: int) -> None:
    device = draw_device(np.random.default_rng(seed))
    grid, lines = pixels(device), beams(device)
    depth_HW = scan_convert(lines.z_mm_DL, grid)
    across_HW = scan_convert(lines.x_mm_DL, grid)
    assert depth_HW.shape == (IMAGE_SIZE, IMAGE_SIZE)
    assert lines.x_mm_DL.shape == (NUM_DEPTHS, NUM_LINES)
    assert np.abs(depth_HW - grid.z_mm_HW)[grid.seen_HW].max() < 0.1
    assert np.abs(across_HW - grid.x_mm_HW)[grid.seen_HW].max() < 0.1


@given(seed=SEEDS)
def test_poses_nest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x_mm, z_mm = rng.uniform(-30, 30, size=2)
    pose = Pose(float(x_mm), float(z_mm), float(rng.uniform(-3, 3)), int(rng.choice([-1, 1])))
    child = pose.at(3.0, 4.0, 0.3)
    u, v = pose.local(np.array([child.x_mm], np.float32), np.array([child.z_mm], np.float32))
    assert (u[0], v[0]) == (pytest.approx(3, abs=1e-3), pytest.approx(4, abs=1e-3))
    tip = child.at(1.0, 0.0)
    u, v = pose.local(np.array([tip.x_mm], np.float32), np.array([tip.z_mm], np.float32))
    assert (u[0], v[0]) == (pytest.approx(3 + np.cos(0.3), abs=1e-3), pytest.approx(4 + np.sin(0.3), abs=1e-3))


def test_areas_of_shapes() -> None:
    x, z = np.meshgrid(*2 * [np.arange(-30, 30, 0.1, dtype=np.float32)])
    pose = Pose(1.0, -2.0, 0.7)

    def area_mm2(shape: object) -> float:
        assert callable(shape)
        return float(shape(x, z).sum()) * 0.01

    assert area_mm2(ellipse(pose, a_mm=10, b_mm=5)) == pytest.approx(np.pi * 50, rel=0.01)
    assert area_mm2(rod(pose, length_mm=12, width_mm=2)) == pytest.approx(20 + np.pi, rel=0.02)
    assert area_mm2(tube(pose, [(-5, 0), (5, 0)], width_mm=2)) == pytest.approx(20 + np.pi, rel=0.02)
    # A wave of size s adds s^2 / 2 to the mean squared radius.
    assert area_mm2(blob(pose, a_mm=10, b_mm=5, ripples=[(3, 0.2, 0.4)])) == pytest.approx(np.pi * 51, rel=0.01)


def test_later_structures_cover_earlier_ones() -> None:
    lines = beams(linear_device())
    both = (
        Structure(ellipse(Pose(0, 40), a_mm=20, b_mm=20), FLUID),
        Structure(ellipse(Pose(0, 40), a_mm=5, b_mm=5), BONE),
    )
    slow_DL = slow_field(lines.x_mm_DL.shape, np.random.default_rng(0))
    maps = paint(both, background=SOFT, x_mm_DL=lines.x_mm_DL, z_mm_DL=lines.z_mm_DL, slow_DL=slow_DL)
    depth, line = 142, 72
    assert maps.attenuation_DL[depth, line] == pytest.approx(BONE.attenuation)
    assert maps.attenuation_DL[depth, line + 20] == pytest.approx(FLUID.attenuation)
    assert maps.attenuation_DL[depth, line + 40] == pytest.approx(SOFT.attenuation)
