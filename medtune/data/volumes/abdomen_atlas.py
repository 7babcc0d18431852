"""The folders of AbdomenAtlas: one per scan, with ct.nii.gz and segmentations/ORGAN.nii.gz.

Source: the layout of AbdomenAtlas 1.0 Mini and of TotalSegmentator's datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCAN = "ct.nii.gz"
MASKS = "segmentations"
_MASK_SUFFIX = ".nii.gz"


@dataclass(frozen=True, slots=True)
class Case:
    """One scan.

    Attributes:
        name: The folder's name.
        masks: File of each organ or lesion, by name, e.g. "liver", "liver_lesion".
    """

    name: str
    scan: Path
    masks: Mapping[str, Path]


def cases(root: Path) -> list[Case]:
    """Returns the scans under a folder, or the one that the folder is, sorted by name.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: No folder in it holds a scan.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"no folder {root}")
    folders = [root] if (root / SCAN).is_file() else sorted(f for f in root.iterdir() if (f / SCAN).is_file())
    if not folders:
        raise ValueError(f"{root}: no folder with a {SCAN}, as AbdomenAtlas has them.")
    return [Case(folder.name, folder / SCAN, _masks(folder / MASKS)) for folder in folders]


def _masks(folder: Path) -> dict[str, Path]:
    files = sorted(folder.glob(f"*{_MASK_SUFFIX}")) if folder.is_dir() else []
    return {file.name.removesuffix(_MASK_SUFFIX): file for file in files}
