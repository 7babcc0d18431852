"""Draws the organs of a simulated patient: their places, sizes and brightness, independent of any lesions.

A position is given in millimetres from the grid's centre towards the patient's left, back and head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

import numpy as np

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.shapes import (
    Ball,
    Depth,
    Point,
    Solid,
    Tube,
    axes_mm,
    depth_of,
    union,
)

Phase = Literal["venous", "delay", "plain"]
PHASES: tuple[Phase, ...] = ("venous", "delay")
SEXES = ("F", "M")
MAKERS = ("GE", "Philips", "Siemens")
ORGANS = ("liver", "spleen", "kidney_left", "kidney_right", "pancreas", "colon")
PANCREAS_PARTS = ("head", "body", "tail")
COLON_PARTS = ("ascending", "transverse", "descending")
SEGMENTS = tuple(f"segment {number}" for number in range(1, 9))

AIR_HU, FAT_HU, MUSCLE_HU, BONE_HU, GAS_HU = -1000.0, -100.0, 55.0, 280.0, -700.0
# Usual values of healthy organs in HU by contrast phase; those of a simulated patient differ by a few HU.
_HU: Mapping[Phase, Mapping[str, float]] = {
    "venous": {"liver": 110, "spleen": 120, "kidney": 170, "pancreas": 90, "colon": 60, "vessel": 170},
    "delay": {"liver": 90, "spleen": 95, "kidney": 150, "pancreas": 75, "colon": 50, "vessel": 120},
    "plain": {"liver": 60, "spleen": 50, "kidney": 35, "pancreas": 42, "colon": 30, "vessel": 40},
}
_HU_SD = 5.0
_SHIFT_MM = 3.0
_LOOPS = 14

_SPLEENS, _KIDNEYS = (1.0, 1.14, 1.33, 1.5), (1.0, 1.0, 1.12, 1.25)
_LIVERS, _PANCREASES = (1.0, 1.05, 1.3), (1.0, 1.4)
_FAT_HU, _PANCREAS_FAT_HU, _KIDNEY_HU = (0.0, -12.0, -30.0), (0.0, -20.0), (0.0, -20.0)


@dataclass(frozen=True)
class Build:
    """What differs from a usual patient, for questions about enlarged or fatty organs; nothing by default."""

    phase: Phase | None = None
    sizes: Mapping[str, float] = field(default_factory=dict)  # The factors on the lengths of organs.
    hu: Mapping[str, float] = field(default_factory=dict)  # What is added to the brightness of organs, in HU.
    # Whether the vessels around the pancreas are drawn, and have masks as stomach and great vessels have.
    vessels: bool = False


USUAL = Build()


@dataclass(frozen=True)
class CtPatient:
    """A simulated patient, and the scanner and contrast phase of the scan."""

    sex: str  # "M" or "F".
    age_years: int
    maker: str
    phase: Phase
    organs: Mapping[str, Depth]  # Each organ on the grid, by name.
    thirds: Mapping[str, Mapping[str, Depth]]  # The thirds of pancreas and colon on the grid, by organ and third.
    hu: Mapping[str, float]  # The brightness of each organ in HU.
    # The structures around the organs with their names ("" for those without a mask) and their brightness in HU, in the
    # order of drawing.
    surroundings: tuple[tuple[str, Solid, float], ...]
    # The half axes of the body's axial outline, from side to side and from front to back.
    body_radii_mm: tuple[float, float]

    @cached_property
    def segments(self) -> Mapping[str, Depth]:
        """The segments of the liver on the grid, which only a scan or a lesion in the liver needs."""
        return _segments(self.organs["liver"])

    def parts(self, organ: str) -> Mapping[str, Depth]:
        """Returns the parts of liver, pancreas or colon on the grid, by name."""
        return self.segments if organ == "liver" else self.thirds[organ]


def draw_patient(rng: np.random.Generator, build: Build = USUAL) -> CtPatient:
    sex, maker, phase = SEXES[rng.integers(2)], MAKERS[rng.integers(3)], PHASES[rng.integers(2)]
    phase = build.phase or phase
    size = float(rng.normal(1.0, 0.025)) * (0.97 if sex == "F" else 1.03)
    place = _Placer(rng, size)
    liver = [place.ball((-72, 0, 42), (66, 70, 70)), place.ball((-5, -42, 52), (68, 34, 38))]
    thick = build.sizes.get("pancreas", 1.0)
    pancreas = {
        "head": [place.tube((-32, 2, -12), (-22, -8, 2), 15 * thick)],
        "body": [place.tube((-22, -8, 2), (28, -10, 18), 12 * thick)],
        "tail": [place.tube((28, -10, 18), (78, 20, 34), 11 * thick)],
    }
    colon = {
        "ascending": [place.tube((-122, -2, -115), (-120, -6, -48), 21)],
        "transverse": [
            place.tube((-112, -40, -52), (-55, -74, -50), 20),
            place.tube((-55, -74, -50), (70, -74, -44), 20),
        ],
        "descending": [place.tube((118, 8, -30), (116, 10, -115), 19)],
    }

    def size_of(organ: str) -> float:
        return build.sizes.get(organ, 1.0)

    organs = {
        "liver": place.drawn([_grown(ball, size_of("liver")) for ball in liver]),
        "spleen": place.drawn([_grown(place.ball((104, 42, 58), (30, 44, 48)), size_of("spleen"))]),
        "kidney_left": place.drawn([_grown(place.ball((66, 56, -8), (28, 29, 53)), size_of("kidney_left"))]),
        "kidney_right": place.drawn([_grown(place.ball((-66, 56, -20), (28, 29, 53)), size_of("kidney_right"))]),
    }
    shared = {"pancreas": place.shift(), "colon": place.shift()}
    thirds = {
        organ: {name: place.drawn(solids, shared[organ]) for name, solids in third.items()}
        for organ, third in (("pancreas", pancreas), ("colon", colon))
    }
    organs |= {organ: union(list(third.values())) for organ, third in thirds.items()}
    hu = {name: value + float(rng.normal(0, _HU_SD)) + build.hu.get(name, 0.0) for name, value in _HU[phase].items()}
    hu |= {"kidney_left": hu["kidney"], "kidney_right": hu["kidney"]}
    body = (168 * size * float(rng.normal(1, 0.03)), 122 * size * float(rng.normal(1, 0.03)))
    return CtPatient(
        sex=sex,
        age_years=int(rng.integers(25, 90)),
        maker=maker,
        phase=phase,
        organs=organs,
        thirds=thirds,
        hu=hu,
        surroundings=_surroundings(place, hu["vessel"], build),
        body_radii_mm=body,
    )


class _Placer:
    def __init__(self, rng: np.random.Generator, size: float) -> None:
        self.rng = rng
        self._size = size
        self._lift = self.shift()

    def shift(self) -> Point:
        x, y, z = (float(v) for v in self.rng.uniform(-_SHIFT_MM, _SHIFT_MM, 3))
        return x, y, z

    def ball(self, centre: Point, radii_mm: Point) -> Ball:
        a, b, c = (radius * self._size * float(self.rng.normal(1, 0.04)) for radius in radii_mm)
        return Ball(self._scaled(centre), (a, b, c))

    def tube(self, start: Point, stop: Point, radius_mm: float) -> Tube:
        return Tube(self._scaled(start), self._scaled(stop), radius_mm * self._size)

    def drawn(self, solids: list[Ball] | list[Tube], shift: Point | None = None) -> Depth:
        return union([depth_of(solid) for solid in self.moved(solids, self.shift() if shift is None else shift)])

    def moved(self, solids: Sequence[Solid], shift: Point) -> list[Solid]:
        by = tuple(a + b for a, b in zip(self._lift, shift, strict=True))
        return [_moved(solid, by) for solid in solids]

    def _scaled(self, point: Point) -> Point:
        x, y, z = (value * self._size for value in point)
        return x, y, z


def _moved(solid: Solid, by: tuple[float, ...]) -> Solid:
    def moved(point: Point) -> Point:
        return point[0] + by[0], point[1] + by[1], point[2] + by[2]

    if isinstance(solid, Ball):
        return solid._replace(centre=moved(solid.centre))
    return solid._replace(start=moved(solid.start), stop=moved(solid.stop))


def _grown(ball: Ball, factor: float) -> Ball:
    a, b, c = (radius * factor for radius in ball.radii_mm)
    return ball._replace(radii_mm=(a, b, c))


def _surroundings(place: _Placer, vessel_hu: float, build: Build) -> tuple[tuple[str, Solid, float], ...]:
    rng = place.rng

    def moved(solid: Solid) -> Solid:
        return place.moved([solid], place.shift())[0]

    found = [
        ("", moved(place.tube((0, 82, -200), (0, 82, 200), 21)), BONE_HU),
        ("aorta", moved(place.tube((14, 48, -200), (14, 48, 200), 10)), vessel_hu),
        ("postcava", moved(place.tube((-16, 46, -200), (-16, 46, 200), 11)), vessel_hu),
        ("stomach", moved(place.ball((62, -28, 70), (44, 34, 48))), 15.0),
        ("", moved(place.ball((60, -44, 74), (26, 14, 26))), GAS_HU),
    ]
    for _ in range(_LOOPS):
        x, y, z = float(rng.uniform(-80, 80)), float(rng.uniform(-55, 25)), float(rng.uniform(-120, -65))
        radius = float(rng.uniform(11, 17))
        found.append(("", moved(place.ball((x, y, z), (1.4 * radius, radius, radius))), float(rng.uniform(10, 45))))
    if build.vessels:
        found.append(("superior_mesenteric_artery", place.tube((6, 9, -90), (6, 9, 30), 6), vessel_hu))
        found.append(("portal_vein", place.tube((-12, 12, -40), (-40, 2, 50), 7), vessel_hu))
    return tuple((name if build.vessels else "", solid, hu) for name, solid, hu in found)


def _segments(liver: Depth) -> dict[str, Depth]:
    """Returns the liver's segments after Couinaud, which vertical planes and one horizontal plane separate.

    From the patient's right to the left: 6 and 7, then 5 and 8, then 4, then 3 and 2; the first of each pair lies below
    the second. Segment 1, the caudate lobe, lies behind the middle, near the spine.
    """
    i, j, k = liver.block
    x, y, z = axes_mm()
    # Planes are compared along their own axes; numpy spreads the results over the block.
    x, y, z = x[i], y[:, j], z[:, :, k]
    inside = liver.depth_IJK > 0
    lefts, backs, heads = (np.broadcast_to(values, inside.shape)[inside] for values in (x, y, z))
    right, centre, middle, left = (float(value) for value in np.quantile(lefts, (0.33, 0.5, 0.62, 0.8)))
    caudate = (x > centre) & (y > float(np.quantile(backs, 0.55)))
    upper = z > float(np.median(heads))
    columns = [x <= right, (x > right) & (x <= middle), (x > middle) & (x <= left), x > left]
    where = {
        "segment 1": caudate,
        "segment 2": columns[3] & upper & ~caudate,
        "segment 3": columns[3] & ~upper & ~caudate,
        "segment 4": columns[2] & ~caudate,
        "segment 5": columns[1] & ~upper & ~caudate,
        "segment 6": columns[0] & ~upper & ~caudate,
        "segment 7": columns[0] & upper & ~caudate,
        "segment 8": columns[1] & upper & ~caudate,
    }
    outside = np.float32(-1000)
    return {name: Depth(liver.block, np.where(part, liver.depth_IJK, outside)) for name, part in where.items()}


def draw_builds(num_patients: int, rng: np.random.Generator) -> list[Build]:
    """Returns as many builds, with each size and brightness of each organ in equal shares and apart from the others."""

    def shares(values: Sequence[float]) -> list[float]:
        return [float(each) for each in rng.permutation(np.resize(values, num_patients))]

    phases = [("plain", "venous")[int(each)] for each in shares((0, 0, 1))]
    drawn = zip(
        phases, *map(shares, (_SPLEENS, _KIDNEYS, _KIDNEYS, _LIVERS, _PANCREASES)),
        *map(shares, (_FAT_HU, _PANCREAS_FAT_HU, _KIDNEY_HU)),
        strict=True,
    )  # fmt: skip
    names = ("spleen", "kidney_left", "kidney_right", "liver", "pancreas")
    return [
        Build(
            phase=cast("Phase", phase),
            sizes=dict(zip(names, lengths[:5], strict=True)),
            hu=dict(zip(("liver", "pancreas", "kidney"), lengths[5:], strict=True)),
            vessels=True,
        )
        for phase, *lengths in drawn
    ]
