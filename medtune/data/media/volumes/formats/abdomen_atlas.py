"""Finds the CT scans and masks in folders of AbdomenAtlas: ct.nii.gz and segmentations/ORGAN.nii.gz for each scan.

A scan NAME may have an encoding by CT-CHAT's tower: NAME.npz or ct.npz beside it, or NAME.npz in another folder.

Source: the layout of AbdomenAtlas 1.0 Mini and of TotalSegmentator's datasets; that of encodings is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medtune.data.media.volumes.formats import ctvit_encoding

SCAN = "ct.nii.gz"
MASKS = "segmentations"
# The deepest path in a release is root/benchmark/ct/BDMAP_00000001/ct.nii.gz.
_LEVELS = 4
_MASK_SUFFIX = ".nii.gz"
_ENCODED_SCAN = f"ct{ctvit_encoding.ENCODING_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    scan: Path
    masks: Mapping[str, Path]  # The mask file of each organ or lesion, by name, e.g. "liver", "liver_lesion".
    # The file with the scan's encoding by CT-CHAT's tower; None where there is no such file.
    encoding: Path | None = None


def find_cases(root: Path) -> dict[str, Case]:
    """Returns the CT scans in the first levels of a folder, by name.

    A scan is NAME/ct.nii.gz. Its masks lie beside it, or under the same NAME elsewhere in the folder, as in the
    downloads image_only and mask_only. Its encoding lies beside it, or is NAME.npz in any searched folder. Folders of
    scans are not searched further.
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
            elif entry.suffix == ctvit_encoding.ENCODING_SUFFIX:
                encodings.setdefault(entry.stem, entry)
        level = below
    return {
        name: Case(
            name, scan, _masks(masks.get(name, scan.parent / MASKS)), _encoded_scan(scan.parent) or encodings.get(name)
        )
        for name, scan in scans.items()
    }


def _masks(folder: Path) -> dict[str, Path]:
    files = sorted(folder.glob(f"*{_MASK_SUFFIX}")) if folder.is_dir() else []
    return {file.name.removesuffix(_MASK_SUFFIX): file for file in files}


def _encoded_scan(folder: Path) -> Path | None:
    names = (f"{folder.name}{ctvit_encoding.ENCODING_SUFFIX}", _ENCODED_SCAN)
    return next((folder / name for name in names if (folder / name).is_file()), None)
