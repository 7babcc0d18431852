"""The folders of AbdomenAtlas: one per scan, with ct.nii.gz and segmentations/ORGAN.nii.gz.

A scan NAME may have been encoded by CT-CHAT's tower: NAME.npz or ct.npz beside it, or NAME.npz in another folder.

Source: the layout of AbdomenAtlas 1.0 Mini and of TotalSegmentator's datasets; that of encodings is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medtune.data.media.volumes.formats import saved_encoding

SCAN = "ct.nii.gz"
MASKS = "segmentations"
# root/benchmark/ct/BDMAP_00000001/ct.nii.gz is the deepest that a release has.
_LEVELS = 4
_MASK_SUFFIX = ".nii.gz"
_ENCODED_SCAN = f"ct{saved_encoding.ENCODING_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Case:
    """One scan.

    Attributes:
        name: The folder's name.
        masks: File of each organ or lesion, by name, e.g. "liver", "liver_lesion".
        encoding: What CT-CHAT's tower made of it; None where there is no such file.
    """

    name: str
    scan: Path
    masks: Mapping[str, Path]
    encoding: Path | None = None


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
    return [Case(folder.name, folder / SCAN, _masks(folder / MASKS), _beside(folder)) for folder in folders]


def find_cases(root: Path) -> dict[str, Case]:
    """Returns the scans in a folder, by name, wherever in its first levels they lie.

    A scan is NAME/ct.nii.gz; its masks lie beside it, or under the same NAME in another part of the folder, as the
    downloads image_only and mask_only have them. Its encoding lies beside it, or is NAME.npz in any folder on the way.
    Folders of scans are not searched further.
    """
    scans, masks, encodings = dict[str, Path](), dict[str, Path](), dict[str, Path]()
    level = [root]
    for _ in range(_LEVELS):
        below: list[Path] = []
        for entry in (entry for each in level for entry in sorted(each.iterdir())):
            if entry.is_dir():
                inside = (entry / SCAN).is_file(), (entry / MASKS).is_dir()
                if inside[0]:
                    scans.setdefault(entry.name, entry / SCAN)
                if inside[1]:
                    masks.setdefault(entry.name, entry / MASKS)
                if not any(inside):
                    below.append(entry)
            elif entry.suffix == saved_encoding.ENCODING_SUFFIX:
                encodings.setdefault(entry.stem, entry)
        level = below
    return {
        name: Case(
            name,
            scan,
            _masks(masks.get(name, scan.parent / MASKS)),
            _beside(scan.parent) or encodings.get(name),
        )
        for name, scan in scans.items()
    }


def _masks(folder: Path) -> dict[str, Path]:
    files = sorted(folder.glob(f"*{_MASK_SUFFIX}")) if folder.is_dir() else []
    return {file.name.removesuffix(_MASK_SUFFIX): file for file in files}


def _beside(folder: Path) -> Path | None:
    names = (f"{folder.name}{saved_encoding.ENCODING_SUFFIX}", _ENCODED_SCAN)
    return next((folder / name for name in names if (folder / name).is_file()), None)
