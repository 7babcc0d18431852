"""Finds the clip or the single slice of each scan that version 2 is released with, for users without the scans.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/data/loader.py (_asset_path), HF_README.md.
"""

from collections.abc import Mapping
from pathlib import Path

from medtune.data.types import MediaKind, MediaRef

MODES: Mapping[MediaKind, str] = {"video": "2d_video", "image": "2d_image"}
_PLACES: tuple[tuple[MediaKind, str], ...] = (("image", "images_2d/whole/*.png"), ("video", "videos/whole/*.mp4"))


def find_pictures(folder: Path) -> dict[str, MediaRef]:
    """Returns the clip of each scan by the scan's name, or the single slice where there is no clip.

    The files lie in the folder itself, or one folder further down, as in the release ("benchmark", "train").
    """
    found: dict[str, MediaRef] = {}
    for kind, place in _PLACES:
        for depth in ("", "*/"):
            found |= {file.stem: MediaRef(file, kind=kind) for file in sorted(folder.glob(f"{depth}{place}"))}
    return found
