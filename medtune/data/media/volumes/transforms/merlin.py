"""Transforms volumes as Merlin does.

Source: merlin-vlm 0.0.7, merlin/data/monai_transforms.py; recorded values in golden/merlin-preprocess.json. The seed
paper's Table 2 names the same size and spacing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import affine_of
from medtune.data.media.volumes.transforms import resample
from medtune.data.types import Volume

_LABELS = (("L", "R"), ("P", "A"), ("I", "S"))


@dataclass(frozen=True, slots=True)
class MerlinTransform:
    """Transforms a volume to (1, R, A, S) in [0, 1], with axes to the right, to the front and to the head.

    Attributes:
        spacing_mm: The spacing after resampling.
        window_hu: The Hounsfield units that become 0 and 1; values outside are cut off.
        size: The number of voxels; the volume is cut or padded with 0 around the centre.
    """

    version: ClassVar[int] = 1
    organs: ClassVar[tuple[str, ...]] = ()
    spacing_mm: tuple[float, float, float] = (1.5, 1.5, 3.0)
    window_hu: tuple[int, int] = (-1000, 1000)
    size: tuple[int, int, int] = (224, 224, 160)

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns the transformed volume, (1, R, A, S)."""
        from monai.data import MetaTensor
        from monai.transforms import Orientation, Spacing

        tensor = MetaTensor(volume.hu_IJK.astype(np.float32)[None], affine=affine_of(volume))
        turned = Orientation(axcodes="RAS", labels=_LABELS)(tensor)
        spaced = np.asarray(Spacing(pixdim=self.spacing_mm, mode="bilinear")(turned), dtype=np.float32)
        low, high = self.window_hu
        scaled = np.clip((spaced - low) / np.float32(high - low), 0, 1).astype(np.float32)
        return resample.centred(scaled, self.size, pad=0.0)


PUBLIC = MerlinTransform()
