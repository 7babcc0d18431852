"""Reads MetaImage files (.mha), a format in which image challenges publish their frames and masks."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def read_metaimage(path: Path) -> NDArray[np.uint8]:
    """Returns the numbers in a MetaImage file, slowest axis first: (H, W), (frames, H, W) or (H, W, channels)."""
    # SimpleITK loads slowly, and only these files need it.
    import SimpleITK as sitk  # noqa: N813

    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file. Copy it from the release.")
    try:
        stored = sitk.GetArrayFromImage(sitk.ReadImage(str(path)))
    except RuntimeError as error:
        raise ValueError(f"{path}: no readable MetaImage (truncated?). Copy or download it again.") from error
    if not np.issubdtype(stored.dtype, np.integer) or stored.min() < 0 or stored.max() > 255:
        raise ValueError(f"{path}: wanted whole numbers from 0 to 255, got {stored.dtype} up to {stored.max()}.")
    return np.asarray(stored, dtype=np.uint8)
