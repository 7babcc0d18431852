"""Simulates the CT scan of a patient: Hounsfield units with partial volume and noise, and a mask of each structure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import AIR_HU, FAT_HU, MUSCLE_HU, ORGANS, Patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import ADJECTIVES, Lesion
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.shapes import SIZE, SPACING_MM, Depth, Floats, axes_mm, depth_of
from medtune.data.media.volumes.formats.abdomen_atlas import MASKS, SCAN
from medtune.data.media.volumes.formats.nifti import write_nifti

NOISE_SD_HU = 15.0
LPS = np.diag([-SPACING_MM, -SPACING_MM, SPACING_MM, 1.0])
"""The affine matrix from voxel indices to mm: i grows to the patient's left, j to the back, and k to the head."""
# The layer of muscle, as shares of the way from the middle of the body to its skin.
_MUSCLE_FROM, _MUSCLE_TO = 0.84, 0.93

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scan:
    """One simulated CT."""

    hu_IJK: NDArray[np.int16]  # The voxels in Hounsfield units.
    masks: Mapping[str, Mask]  # The masks by AbdomenAtlas's names; there is no entry for an absent structure.


def scan(patient: Patient, lesions: Sequence[Lesion], rng: np.random.Generator) -> Scan:
    hu_IJK = _body(patient)
    for _, solid, hu in patient.surroundings:
        _draw(hu_IJK, depth_of(solid), hu)
    masks: dict[str, Mask] = {}
    for organ in ORGANS:
        drawn = patient.organs[organ]
        _draw(hu_IJK, drawn, patient.hu[organ])
        inside = _mask(drawn)
        for earlier in masks.values():
            earlier &= ~inside
        masks[organ] = inside
    for name, part in patient.segments.items():
        masks[f"liver_{name.replace(' ', '_')}"] = _mask(part) & masks["liver"]
    for name, part in patient.thirds["pancreas"].items():
        masks[f"pancreas_{name}"] = _mask(part) & masks["pancreas"]
    for name, part in patient.thirds["colon"].items():
        masks[f"colon_{name}"] = _mask(part) & masks["colon"]
    for name, solid, _ in patient.surroundings:
        if name:
            masks[name] = _mask(depth_of(solid)) & ~np.logical_or.reduce([masks[organ] for organ in ORGANS])
    for lesion in lesions:
        _draw(hu_IJK, lesion.drawn, lesion.hu)
        for name in lesion_masks(lesion):
            # If no voxel's centre lies inside the lesion, its mask is the one voxel that it fills most.
            own = _mask(lesion.drawn)
            own = own if own.any() else lesion.drawn.whole() >= lesion.drawn.depth_IJK.max()
            masks[name] = masks.get(name, np.zeros(SIZE, np.bool_)) | own
    hu_IJK += rng.standard_normal(SIZE, dtype=np.float32) * np.float32(NOISE_SD_HU)
    return Scan(np.clip(np.rint(hu_IJK), -1024, 3071).astype(np.int16), masks)


def lesion_masks(lesion: Lesion) -> tuple[str, ...]:
    """Returns the names of the masks that a lesion belongs to: all lesions of its organ, and those of its kind."""
    kinds = ("lesion", *((lesion.kind,) if lesion.kind else ()), *((lesion.cells,) if lesion.cells else ()))
    return tuple(f"{ADJECTIVES[lesion.site]}_{kind}" for kind in kinds)


def write(folder: Path, scanned: Scan) -> None:
    """Writes a scan and its masks into a folder in the layout of AbdomenAtlas."""
    (folder / MASKS).mkdir(parents=True)
    write_nifti(folder / SCAN, scanned.hu_IJK, LPS)
    for name, mask in scanned.masks.items():
        write_nifti(folder / MASKS / f"{name}.nii.gz", mask.astype(np.uint8), LPS)


def _body(patient: Patient) -> Floats:
    x, y, _ = axes_mm()
    across, deep = patient.body_radii_mm
    reach_IJ = np.sqrt((x / across) ** 2 + (y / deep) ** 2)[:, :, 0]
    blur = np.float32(SPACING_MM / min(across, deep))
    hu_IJ: Floats = np.full(reach_IJ.shape, AIR_HU, np.float32)
    for limit, hu in ((1.0, FAT_HU), (_MUSCLE_TO, MUSCLE_HU), (_MUSCLE_FROM, FAT_HU)):
        share = np.clip((limit - reach_IJ) / blur + 0.5, 0, 1)
        hu_IJ += (share * (np.float32(hu) - hu_IJ)).astype(np.float32)
    return np.repeat(hu_IJ[:, :, None], SIZE[2], axis=2).astype(np.float32)


def _draw(hu_IJK: Floats, drawn: Depth, hu: float) -> None:
    share = drawn.filled()
    here = hu_IJK[drawn.block]
    here += share * (np.float32(hu) - here)


def _mask(drawn: Depth) -> Mask:
    mask = np.zeros(SIZE, np.bool_)
    mask[drawn.block] = drawn.depth_IJK > 0
    return mask
