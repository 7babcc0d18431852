"""Measures a CT and its masks: volumes, brightness, and each lesion's size, place, attenuation and contacts.

All arrays are in the orientation LPS. Masks are kept cut to their boxes, so that a scan with twenty masks takes little
more memory than the scan and one mask.

Shape legend: I, J, K voxels to the patient's left, to the back and to the head.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.distance import pdist, squareform

from medtune.benchmarks.ctlesionvqa.construction.facts import HYPER, HYPO, ISO, Facts, LesionFacts, OrganFacts
from medtune.benchmarks.ctlesionvqa.construction.mask_names import (
    ARTERIES,
    KINDS,
    NEIGHBOURS,
    ORGANS,
    PARTS,
    VEINS,
    lesion_masks,
)
from medtune.data.types import Volume

Mask = NDArray[np.bool_]
Box = tuple[slice, slice, slice]
Spacing = tuple[float, float, float]

SMALLEST_MM3 = 10.0
"""Components below this volume are no lesions. Source: MrGiovanni/RadGPT, generate_reports/README.md (--th 10)."""
ISO_SHARE = 0.1
"""A lesion is isoattenuating within this share of its organ's sd. Source: RadGPT, CreateAAReports.py."""
NEAR_MM = 5.0
"""Structures within this distance lie against a lesion: ours, one slice of a usual abdominal CT."""
MOST_SHARED = 0.05
"""Two organs may share this part of the smaller one at their common border: ours."""
TISSUE_HU = (-150.0, 500.0)
"""The range of a soft organ's mean, fat and contrast medium included, outside of which a scan is not in HU: ours."""
VALID_HU = (-1024, 3071)
"""The Hounsfield units that a 12-bit scan can hold."""
MOST_INVALID = 0.01
_EVERY_NEIGHBOUR = np.ones((3, 3, 3), np.bool_)


class Region(NamedTuple):
    """A mask that is not empty, cut to its box."""

    box: Box
    mask_IJK: Mask

    def on(self, box: Box) -> Mask:
        """Returns the part of the mask in another box."""
        out_IJK = np.zeros([part.stop - part.start for part in box], np.bool_)
        shared = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(self.box, box, strict=True)]
        if all(start < stop for start, stop in shared):
            here = tuple(slice(s - p.start, e - p.start) for (s, e), p in zip(shared, self.box, strict=True))
            there = tuple(slice(s - p.start, e - p.start) for (s, e), p in zip(shared, box, strict=True))
            out_IJK[there] = self.mask_IJK[here]
        return out_IJK


def region(mask_IJK: Mask) -> Region | None:
    """Returns a mask cut to its box; None for an empty one."""
    seen_IJ: NDArray[np.bool_] = np.any(mask_IJK, axis=2)
    found = [np.flatnonzero(seen_IJ.any(axis=1)), np.flatnonzero(seen_IJ.any(axis=0))]
    if not found[0].size:
        return None
    i, j = (slice(int(each[0]), int(each[-1]) + 1) for each in found)
    ends = np.flatnonzero(mask_IJK[i, j].any(axis=(0, 1)))
    k = slice(int(ends[0]), int(ends[-1]) + 1)
    return Region((i, j, k), mask_IJK[i, j, k].copy())


def union(regions: Sequence[Region]) -> Region | None:
    if len(regions) < 2:
        return regions[0] if regions else None
    i, j, k = (
        slice(min(each.box[axis].start for each in regions), max(each.box[axis].stop for each in regions))
        for axis in range(3)
    )
    return Region((i, j, k), np.logical_or.reduce([each.on((i, j, k)) for each in regions]))


def measure(name: str, scan: Volume, masks: Mapping[str, Region], about: Mapping[str, str]) -> Facts:
    """Returns the facts about a scan in LPS; raises a ValueError where the scan is not in Hounsfield units.

    An organ without a mask, or with an empty one, is left out. Organs whose masks overlap by more than `MOST_SHARED`,
    or that have a lesion outside of them, are named as wrong, and nothing is asked about them.
    """
    measured = _Case(scan, masks)
    for organ in measured.organs:
        measured.check_hu(organ)
    shape = scan.hu_IJK.shape
    return Facts(
        name=name,
        shape=(shape[0], shape[1], shape[2]),
        spacing_mm=scan.spacing_mm,
        organs={organ: measured.organ(organ) for organ in measured.organs},
        lesions=tuple(lesion for organ in KINDS if organ in measured.organs for lesion in measured.lesions(organ)),
        parts={
            organ: {part: measured.volume_cm3(masks[mask].mask_IJK) for part, mask in parts.items() if mask in masks}
            for organ, parts in PARTS.items()
            if organ != "kidney"
        },
        about=dict(about),
        wrong=measured.wrong(),
    )


class _Case:
    """A scan and its masks while they are measured."""

    def __init__(self, scan: Volume, masks: Mapping[str, Region]) -> None:
        self._hu_IJK, self._spacing_mm, self._masks = scan.hu_IJK, scan.spacing_mm, masks
        self._voxel_cm3 = float(np.prod(scan.spacing_mm)) / 1000
        self.organs = {
            organ: whole
            for organ, names in ORGANS.items()
            if (whole := union([masks[name] for name in names if name in masks])) is not None
        }
        self._ill = {organ: union(self._regions_named(lesion_masks(organ, "lesion"))) for organ in KINDS}
        self._measured: dict[str, OrganFacts] = {}
        self._outside: dict[str, str] = {}

    def _regions_named(self, names: Iterable[str]) -> list[Region]:
        return [self._masks[name] for name in names if name in self._masks]

    def volume_cm3(self, mask_IJK: Mask) -> float:
        return float(np.count_nonzero(mask_IJK)) * self._voxel_cm3

    def check_hu(self, organ: str) -> None:
        box, mask_IJK = self.organs[organ]
        hu = self._hu_IJK[box][mask_IJK]
        invalid = float(np.mean((hu < VALID_HU[0]) | (hu > VALID_HU[1])))
        mean = float(hu.mean(dtype=np.float64))
        soft = organ in ("colon", "esophagus") or TISSUE_HU[0] <= mean <= TISSUE_HU[1]
        if invalid > MOST_INVALID or not soft:
            raise ValueError(
                f"{organ}: mean {mean:.0f} HU, {invalid:.0%} of its voxels outside of {VALID_HU[0]} to {VALID_HU[1]} "
                "HU: this scan is not in Hounsfield units. Export it again with its rescale slope and intercept."
            )

    def organ(self, name: str) -> OrganFacts:
        """Returns an organ's size, and its brightness without its lesions."""
        if name not in self._measured:
            box, mask_IJK = self.organs[name]
            ill = self._ill.get(name.rpartition(" ")[2])
            healthy_IJK = mask_IJK if ill is None else mask_IJK & ~ill.on(box)
            hu = self._hu_IJK[box][healthy_IJK]
            mean, sd = (float(hu.mean(dtype=np.float64)), float(hu.std(dtype=np.float64))) if hu.size else (None, None)
            self._measured[name] = OrganFacts(self.volume_cm3(mask_IJK), mean, sd)
        return self._measured[name]

    def lesions(self, organ: str) -> Iterator[LesionFacts]:
        for kind in KINDS[organ]:
            whole = union(self._regions_named(lesion_masks(organ, kind)))
            if whole is None:
                continue
            parts = sorted(self._components(whole), key=lambda part: -np.count_nonzero(part.mask_IJK))
            for number, part in enumerate(parts):
                if not self._around(part, self._steps(NEAR_MM))[self.organs[organ].on(self._wider(part.box))].any():
                    self._outside[organ] = f"a {kind} lies outside of the organ's mask"
                yield self._lesion(organ, kind, part, contacts=number == 0)

    def _components(self, whole: Region) -> Iterator[Region]:
        labels_IJK, count = ndimage.label(whole.mask_IJK, _EVERY_NEIGHBOUR)
        sizes = np.bincount(labels_IJK.ravel(), minlength=count + 1) * self._voxel_cm3 * 1000
        for number, within in enumerate(ndimage.find_objects(labels_IJK), start=1):
            if sizes[number] >= SMALLEST_MM3:
                i, j, k = (
                    slice(b.start + part.start, b.start + part.stop) for b, part in zip(whole.box, within, strict=True)
                )
                yield Region((i, j, k), labels_IJK[within] == number)

    def _lesion(self, organ: str, kind: str, part: Region, *, contacts: bool) -> LesionFacts:
        hu = self._hu_IJK[part.box][part.mask_IJK]
        place = self._place(organ, part)
        own = f"{place} kidney" if organ == "kidney" and place is not None else organ
        around = self.organ(own if own in self.organs else organ)
        mean, (long_cm, short_cm) = float(hu.mean(dtype=np.float64)), _diameters_cm(part.mask_IJK, self._spacing_mm)
        areas = np.count_nonzero(part.mask_IJK, axis=(0, 1))
        # Of equally large slices the one nearest to the middle counts.
        most = np.flatnonzero(areas == areas.max())
        middle = most[np.abs(most - np.average(np.arange(areas.size), weights=areas)).argmin()]
        found = LesionFacts(
            organ=organ,
            kind=kind,
            volume_cm3=self.volume_cm3(part.mask_IJK),
            long_cm=long_cm,
            short_cm=short_cm,
            slice=part.box[2].start + int(middle) + 1,
            hu_mean=mean,
            hu_sd=float(hu.std(dtype=np.float64)),
            place=place,
            attenuation=attenuation(mean, around),
            organ_hu=around.hu_mean,
        )
        return (
            replace(found, touches=self._touched(organ, part), contact_degrees=self._contacts(part))
            if contacts
            else found
        )

    def _place(self, organ: str, part: Region) -> str | None:
        """Returns the part of the organ that holds most of a lesion, or of what surrounds a lesion outside of them."""
        regions = {name: self._masks[mask] for name, mask in PARTS.get(organ, {}).items() if mask in self._masks}
        for box, mask_IJK in (
            (part.box, part.mask_IJK),
            (self._wider(part.box), self._around(part, self._steps(NEAR_MM))),
        ):
            shares = {name: np.count_nonzero(each.on(box) & mask_IJK) for name, each in regions.items()}
            if shares and max(shares.values()):
                return max(shares, key=shares.__getitem__)
        return None

    def _steps(self, distance_mm: float) -> tuple[int, int, int]:
        i, j, k = (max(1, int(distance_mm / step)) for step in self._spacing_mm)
        return i, j, k

    def _wider(self, box: Box) -> Box:
        i, j, k = (
            slice(max(part.start - step, 0), min(part.stop + step, length))
            for part, step, length in zip(box, self._steps(NEAR_MM), self._hu_IJK.shape, strict=True)
        )
        return i, j, k

    def _around(self, part: Region, steps: tuple[int, int, int]) -> Mask:
        """Returns a lesion grown by some steps along each axis, in its wider box."""
        grown_IJK = part.on(self._wider(part.box))
        for axis, step in enumerate(steps):
            line = np.ones([2 * step + 1 if each == axis else 1 for each in range(3)], np.bool_)
            grown_IJK = ndimage.binary_dilation(grown_IJK, line)
        return grown_IJK

    def _touched(self, organ: str, part: Region) -> tuple[str, ...]:
        box, near_IJK = self._wider(part.box), self._around(part, self._steps(NEAR_MM))
        others = {name: self.organs[name] for name in self.organs if name != "kidney" and not name.endswith(organ)}
        others |= {name.replace("_", " "): self._masks[name] for name in NEIGHBOURS if name in self._masks}
        shares = {name: np.count_nonzero(each.on(box) & near_IJK) for name, each in others.items()}
        return tuple(sorted((name for name, share in shares.items() if share), key=lambda name: -shares[name]))

    def _contacts(self, part: Region) -> dict[str, float]:
        """Returns the largest share of each vessel's outline in a slice that touches a lesion, in degrees."""
        box, near_IJK = self._wider(part.box), self._around(part, (1, 1, 1))
        found = {}
        for vessel in (name for name in (*ARTERIES, *VEINS) if name in self._masks):
            whole_IJK = self._masks[vessel].on(box)
            edge_IJK = whole_IJK & ~ndimage.binary_erosion(whole_IJK, np.ones((3, 3, 1)), border_value=1)
            lengths, touched = (np.count_nonzero(each, axis=(0, 1)) for each in (edge_IJK, edge_IJK & near_IJK))
            shares: NDArray[np.float64] = touched / np.maximum(lengths, 1)
            found[vessel] = 360 * float(shares.max())
        return found

    def wrong(self) -> dict[str, str]:
        """Returns the organs whose masks contradict one another, with the reason; to be called after `lesions`."""
        found = dict(self._outside)
        apart = [name for name in self.organs if name != "kidney"]
        for one, other in combinations(apart, 2):
            a, b = self.organs[one], self.organs[other]
            both = np.count_nonzero(a.mask_IJK & b.on(a.box))
            smaller = min(np.count_nonzero(a.mask_IJK), np.count_nonzero(b.mask_IJK))
            if both > MOST_SHARED * smaller:
                for name, overlapped in ((one, other), (other, one)):
                    found[name] = (
                        f"its mask shares {both / smaller:.0%} of the smaller one with that of the {overlapped}"
                    )
        return found


def attenuation(hu_mean: float, organ: OrganFacts) -> str | None:
    """Returns the class of a lesion's brightness beside its organ's; None where the organ's is not known."""
    if organ.hu_mean is None or organ.hu_sd is None:
        return None
    difference = hu_mean - organ.hu_mean
    return ISO if abs(difference) <= ISO_SHARE * organ.hu_sd else HYPER if difference > 0 else HYPO


def _diameters_cm(mask_IJK: Mask, spacing_mm: Spacing) -> tuple[float, float]:
    """Returns the longest axial diameter of a lesion, and its extent at right angles to it in the same slice.

    The distance between the centres of two voxels is one voxel short of the extent of both, which is added.
    """
    steps = np.array(spacing_mm[:2])
    best, ends_N2, line = -1.0, np.zeros((1, 2)), np.array([1.0, 0.0])
    for k in range(mask_IJK.shape[2]):
        # The two ends of each row hold the two voxels that are farthest apart.
        rows = np.flatnonzero(mask_IJK[:, :, k].any(axis=1))
        if not rows.size:
            continue
        drawn_IJ = mask_IJK[rows, :, k]
        first, last = drawn_IJ.argmax(axis=1), drawn_IJ.shape[1] - 1 - drawn_IJ[:, ::-1].argmax(axis=1)
        points_N2: NDArray[Any] = np.concatenate([np.stack([rows, first], 1), np.stack([rows, last], 1)]) * steps
        distances = squareform(pdist(points_N2))
        one, other = np.unravel_index(distances.argmax(), distances.shape)
        if distances[one, other] > best:
            best, ends_N2 = float(distances[one, other]), points_N2
            line = points_N2[other] - points_N2[one] if best > 0 else line
    voxel_mm = float(steps.mean())
    across = ends_N2 @ np.array([-line[1], line[0]]) / np.linalg.norm(line)
    return (best + voxel_mm) / 10, (float(np.ptp(across)) + voxel_mm) / 10
