"""Draws the lesions of simulated patients, apart from everything else, so that no organ gives a hint of them.

Whether an organ holds lesions, their place, brightness and number are drawn in equal shares; sizes and contrasts are
spread evenly over their ranges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np
from scipy import ndimage

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import COLON_PARTS, PANCREAS_PARTS, SEGMENTS, CtPatient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.shapes import (
    SIZE,
    SPACING_MM,
    Ball,
    Block,
    Depth,
    Floats,
    Point,
    axes_mm,
    counted,
)
from medtune.benchmarks.simulators import in_equal_shares

Site = Literal["liver", "kidney", "pancreas", "colon"]
SITES: tuple[Site, ...] = ("liver", "kidney", "pancreas", "colon")

DIAMETERS_MM = (5.0, 40.0)
CONTRASTS_HU = (10.0, 80.0)
PLACES: Mapping[Site, tuple[str, ...]] = {
    "liver": SEGMENTS,
    "kidney": ("left", "right"),
    "pancreas": PANCREAS_PARTS,
    "colon": COLON_PARTS,
}
ADJECTIVES: Mapping[Site, str] = {"liver": "liver", "kidney": "kidney", "pancreas": "pancreatic", "colon": "colon"}
WITH_KINDS: tuple[Site, ...] = ("kidney", "pancreas")
"""The organs in which dark lesions are cysts and bright ones are tumours."""
MAX_LESIONS: Mapping[Site, int] = {"liver": 3, "kidney": 1, "pancreas": 1, "colon": 1}
MANY_LESIONS: Mapping[Site, int] = {"liver": 6, "kidney": 3, "pancreas": 2, "colon": 1}
_CLEAR_MM, _CLEAR_HU = (9.0, 40.0), (40.0, 80.0)
_SIMILAR = (0.75, 0.95)
# The gap between lesions at which no two voxels of theirs touch, and how deep a lesion's middle lies in its part.
_APART_MM, _WITHIN = 8.0, 0.4
_SMALLER = (0.3, 0.6)
_ASPECT = (0.85, 1.0)
_GAP_MM = 4.0
_UPWARDS = 0.6


@dataclass(frozen=True, slots=True)
class OrganLesions:
    """The lesions of one organ, as drawn."""

    place: str  # The part of the organ that holds the largest lesion.
    # Whether the lesions are brighter than the organ. In kidney and pancreas bright lesions are tumours and dark ones
    # are cysts.
    is_bright: bool
    diameter_mm: float  # The diameter of the largest lesion.
    contrast_hu: float  # The absolute difference in brightness from the organ, in HU.
    number: int
    # Of a cohort that asks every subtype: lesions stay apart and within their part of the organ, those of the liver
    # have kinds and those of the pancreas cells, and further ones may be similar in size and place.
    clear: bool = False


Findings = Mapping[Site, OrganLesions | None]


@dataclass(frozen=True)
class Lesion:
    site: Site
    place: str
    solid: Ball
    hu: float  # The brightness of the lesion in HU.
    contrast_hu: float  # The absolute difference in brightness from the organ, in HU.
    is_bright: bool
    clear: bool = False

    @cached_property
    def drawn(self) -> Depth:
        """The shape on the voxel grid, which a process that draws no scan does not need."""
        return counted(self.solid)

    @property
    def kind(self) -> Literal["cyst", "tumor"] | None:
        """Whether the lesion is a cyst or a tumour; None in organs whose lesions are not distinguished."""
        if self.site not in WITH_KINDS and not (self.clear and self.site == "liver"):
            return None
        return "tumor" if self.is_bright else "cyst"

    @property
    def cells(self) -> Literal["pdac", "pnet"] | None:
        """The type of a tumour of the pancreas, by its contrast; None where types are not distinguished."""
        if not self.clear or self.site != "pancreas" or not self.is_bright:
            return None
        return "pdac" if self.contrast_hu < sum(_CLEAR_HU) / 2 else "pnet"

    @property
    def diameter_mm(self) -> float:
        """The longest extent of the lesion in an axial slice."""
        return 2 * max(self.solid.radii_mm[:2])

    @property
    def volume_cm3(self) -> float:
        return float(self.drawn.filled().sum()) * SPACING_MM**3 / 1000


def draw_findings(num_patients: int, rng: np.random.Generator, *, clear: bool = False) -> list[Findings]:
    """Returns the findings of all patients; each organ is ill in half of them. Clear ones can be measured."""
    drawn = {site: _of_site(site, num_patients, rng, clear) for site in SITES}
    return [{site: drawn[site][patient] for site in SITES} for patient in range(num_patients)]


def _of_site(site: Site, num_patients: int, rng: np.random.Generator, clear: bool) -> list[OrganLesions | None]:
    ill = in_equal_shares((True, False), num_patients, rng)
    numbers = range(1, (MANY_LESIONS if clear else MAX_LESIONS)[site] + 1)
    sizes, contrasts = (_CLEAR_MM, _CLEAR_HU) if clear else (DIAMETERS_MM, CONTRASTS_HU)
    kinds = in_equal_shares(list(product(PLACES[site], (True, False), numbers)), sum(ill), rng)
    findings = iter(
        OrganLesions(place, is_bright, diameter, contrast, number, clear)
        for (place, is_bright, number), diameter, contrast in zip(
            kinds, _spread(sizes, sum(ill), rng), _spread(contrasts, sum(ill), rng), strict=True
        )
    )
    return [next(findings) if is_ill else None for is_ill in ill]


def _spread(limits: tuple[float, float], count: int, rng: np.random.Generator) -> list[float]:
    low, high = limits
    shares = ((np.arange(count) + rng.random(count)) / max(count, 1)) ** _UPWARDS
    return [low + (high - low) * float(share) for share in rng.permutation(shares)]


def place_lesions(patient: CtPatient, findings: Findings, rng: np.random.Generator) -> list[Lesion]:
    """Returns the lesions of a patient, the largest of each organ first.

    A further lesion for which an organ has no room is left out.
    """
    placed: list[Lesion] = []
    for site, finding in findings.items():
        if finding is None:
            continue
        similar, together = (rng.random(2) < 0.5).tolist() if finding.clear else (False, False)
        for number in range(finding.number):
            share = 1.0 if number == 0 else float(rng.uniform(*(_SIMILAR if similar else _SMALLER)))
            diameter = max(finding.diameter_mm * share, (_CLEAR_MM if finding.clear else DIAMETERS_MM)[0])
            place = finding.place if number == 0 or together else str(rng.choice(PLACES[site]))
            lesion = _placed(patient, site, place, diameter, finding, placed, rng)
            if lesion is not None:
                placed.append(lesion)
    return placed


def _placed(
    patient: CtPatient,
    site: Site,
    place: str,
    diameter_mm: float,
    finding: OrganLesions,
    others: Sequence[Lesion],
    rng: np.random.Generator,
) -> Lesion | None:
    organ = f"kidney_{place}" if site == "kidney" else site
    room = patient.organs[organ] if site == "kidney" else patient.parts(site)[place]
    inside = room.depth_IJK.copy()
    for other in others:
        reach = max(other.solid.radii_mm) + diameter_mm / 2 + (_APART_MM if finding.clear else _GAP_MM)
        inside[_distance_mm(other.solid.centre, room.block) < reach] = 0
    if finding.clear:
        for name, other_organ in patient.organs.items():
            if name != organ:
                inside[other_organ.on(room.block) > 0] = 0
    if finding.clear and site != "kidney":
        parts = np.stack([part.on(room.block) > 0 for name, part in patient.parts(site).items() if name != place])
        away_mm = ndimage.distance_transform_edt(~parts.any(axis=0), SPACING_MM)
        inside[away_mm < _WITHIN * diameter_mm / 2 + SPACING_MM] = 0
    deepest = float(inside.max())
    if deepest <= 0:
        return None
    # A large lesion may bulge out of a thin organ, but its middle lies within.
    candidates = np.argwhere(inside >= min(0.7 * diameter_mm / 2, 0.8 * deepest))
    i, j, k = (
        (float(part.start + index) - (count - 1) / 2 + float(rng.uniform(-0.5, 0.5))) * SPACING_MM
        for part, index, count in zip(room.block, candidates[rng.integers(len(candidates))], SIZE, strict=True)
    )
    radii = [diameter_mm / 2, *(diameter_mm / 2 * float(rng.uniform(*_ASPECT)) for _ in range(2))]
    if rng.random() < 0.5:
        radii[0], radii[1] = radii[1], radii[0]
    solid = Ball((i, j, k), (radii[0], radii[1], radii[2]))
    hu = patient.hu[organ] + (finding.contrast_hu if finding.is_bright else -finding.contrast_hu)
    return Lesion(site, place, solid, hu, finding.contrast_hu, finding.is_bright, finding.clear)


def _distance_mm(centre: Point, block: Block) -> Floats:
    x, y, z = axes_mm()
    i, j, k = block
    distance: Floats = np.sqrt((x[i] - centre[0]) ** 2 + (y[:, j] - centre[1]) ** 2 + (z[:, :, k] - centre[2]) ** 2)
    return distance
