"""Writes MetaImage files (.mha) for the examples of public sets."""

from pathlib import Path

import numpy as np
import SimpleITK as sitk  # noqa: N813
from numpy.typing import NDArray


def write_metaimage(path: Path, stored: NDArray[np.uint8]) -> None:
    """Writes an array as a compressed MetaImage file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sitk.WriteImage(sitk.GetImageFromArray(stored), str(path), useCompression=True)
