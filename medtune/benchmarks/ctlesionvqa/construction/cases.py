"""Reads a case from disk: the CT, its masks on the CT's grid, and what is known of patient and scanner."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from medtune.benchmarks.ctlesionvqa.construction.facts import Facts
from medtune.benchmarks.ctlesionvqa.construction.mask_names import MaskFile
from medtune.benchmarks.ctlesionvqa.construction.measure import Mask, Region, measure, region, union
from medtune.data.media.masks import OF_CONSTRUCTION
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES, nifti_affine, read_nifti_labels
from medtune.data.media.volumes.geometry import turned, turned_spacing
from medtune.data.media.volumes.read import read_volume
from medtune.data.types import MediaRef, Volume

LPS = "LPS"
Masks = Mapping[str, Sequence[MaskFile]]
EMPTY = "masks without a voxel"
RESAMPLED = "masks of another grid, which were resampled to that of the scan"
_SAME_MM = 0.01
_NOTHING: Mapping[str, str] = MappingProxyType({})


def stored_masks(masks: Masks, shown: Collection[str]) -> tuple[tuple[str, Path], ...]:
    """Returns masks as a `MediaRef` holds them, sorted by name.

    Args:
        masks: The mask files by AbdomenAtlas's names.
        shown: The organs whose masks a model may be shown, if each is a file of its own.
    """
    named = [
        (
            name
            if name in shown and len(files) == 1 and file.label is None
            else f"{OF_CONSTRUCTION}{name} {file.label or ''}".rstrip(),
            file.path,
        )
        for name, files in masks.items()
        for file in files
    ]
    return tuple(sorted(named))


def masks_of_media(ref: MediaRef) -> Masks:
    """Returns the mask files of a prepared scan by AbdomenAtlas's names: what `stored_masks` was given."""
    found: dict[str, list[MaskFile]] = {}
    for stored, path in ref.masks:
        name, _, label = stored.removeprefix(OF_CONSTRUCTION).partition(" ")
        found.setdefault(name, []).append(MaskFile(path, int(label) if label else None))
    return found


def read_facts(name: str, scan: Path, masks: Masks, about: Mapping[str, str] = _NOTHING) -> Facts:
    """Returns the facts about a case on disk; raises a ValueError or FileNotFoundError that names the file.

    A mask on another grid is resampled to the scan's by nearest voxels if it lies in the scan; a mask that does not is
    refused. An empty mask of an organ counts as no mask; an empty mask of lesions says that there are none.
    """
    volume, found, notes = read_case(scan, masks)
    try:
        return replace(measure(name, volume, found, about), notes=tuple(notes))
    except ValueError as error:
        raise ValueError(f"{scan}: {error}") from error


def read_case(scan: Path, masks: Masks) -> tuple[Volume, dict[str, Region], list[str]]:
    """Returns the scan in LPS, its masks that are not empty, and notes on the others, each "what: which mask"."""
    read = read_volume(scan)
    affine = nifti_affine(scan) if scan.name.endswith(NIFTI_SUFFIXES) else None
    hu_IJK: NDArray[Any] = read.hu_IJK
    volume = Volume(turned(hu_IJK, read, LPS), turned_spacing(read, LPS), LPS)
    regions: dict[str, Region] = {}
    notes: list[str] = []
    open_file: tuple[Path, NDArray[Any]] | None = None
    for name, files in masks.items():
        parts: list[Region] = []
        for file in files:
            # A label map holds many masks and is read once.
            if open_file is None or open_file[0] != file.path:
                values_IJK, moved = _on_grid(file.path, read, affine)
                open_file = file.path, values_IJK
                notes += [f"{RESAMPLED}: {name}"] if moved else []
            values_IJK = open_file[1]
            here: Mask = values_IJK != 0 if file.label is None else values_IJK == file.label
            parts += [cut] if (cut := region(turned(here, read, LPS))) is not None else []
        if (whole := union(parts)) is not None:
            regions[name] = whole
        else:
            notes.append(f"{EMPTY}: {name}")
    return volume, regions, notes


def _on_grid(path: Path, scan: Volume, affine: NDArray[np.float64] | None) -> tuple[NDArray[Any], bool]:
    values_IJK, own = read_nifti_labels(path), nifti_affine(path)
    shape = scan.hu_IJK.shape
    if affine is None:
        # The scan's file states no origin, so that the mask has to be voxel for voxel the same.
        if values_IJK.shape != shape:
            raise ValueError(
                f"{path}: a mask of {values_IJK.shape} for a scan of {shape}. Resample it to the scan's grid."
            )
        return values_IJK, False
    if values_IJK.shape == shape and np.abs(_corners(own, shape) - _corners(affine, shape)).max() < _tolerance(affine):
        return values_IJK, False
    to_mask = np.linalg.inv(own) @ affine
    corners = _corners(to_mask, shape)
    if (corners.max(axis=0) < 0).any() or (corners.min(axis=0) > np.array(values_IJK.shape) - 1).any():
        raise ValueError(f"{path}: this mask lies outside of the scan. Give the mask that was drawn on it.")
    values_IJK = np.ascontiguousarray(values_IJK)
    return ndimage.affine_transform(values_IJK, to_mask[:3, :3], to_mask[:3, 3], shape, order=0, cval=0), True


def _corners(affine: NDArray[np.float64], shape: Sequence[int]) -> NDArray[np.float64]:
    ends = np.array([[i, j, k, 1] for i in (0, shape[0] - 1) for j in (0, shape[1] - 1) for k in (0, shape[2] - 1)])
    corners: NDArray[np.float64] = (ends @ affine.T)[:, :3]
    return corners


def _tolerance(affine: NDArray[np.float64]) -> float:
    """Returns the distance in mm within which two grids are the same: a tenth of the smallest spacing."""
    return max(0.1 * float(np.linalg.norm(affine[:3, :3], axis=0).min()), _SAME_MM)
