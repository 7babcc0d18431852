"""The body of a simulated fetus in three dimensions, from the crown to the thighs, and the places of its parts.

The sizes are those at about 24 weeks, as in the source fetal_phantom. The arms are left out.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from medtune.benchmarks.fetal_sweep.sources.fetal_sweep.solids import Organ, Point, capsule, ellipsoid
from medtune.benchmarks.simulators.bmode.tissue import (
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
    brighter,
    tinted,
)

Part = Literal["head", "chest", "abdomen", "legs"]
CENTRES_MM: dict[Part, float] = {"head": -44.0, "chest": 9.0, "abdomen": 38.0, "legs": 82.0}
"""The height along the body (see `solids`) at which each part is seen best, for a fetus of size 1."""
PARTS: tuple[Part, ...] = ("head", "chest", "abdomen", "legs")


def body(size: float, rng: np.random.Generator) -> tuple[Organ, ...]:
    """Returns the organs of a fetus, whose tissues are made a little brighter or darker at random.

    Args:
        size: Size of the fetus relative to a fetus of about 27 weeks, whose size is 1.
        rng: The source of random numbers.
    """
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
