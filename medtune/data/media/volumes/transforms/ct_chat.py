"""Transforms volumes as CT-CLIP and CT-CHAT do.

Source: ibrahimethemhamamci/CT-CHAT@33c9b973 llava/serve/encode_script.py and CT-CLIP@a2a155c6 scripts/data.py, as our
specs describe them, no code taken (CC-BY-NC-SA); recorded values in golden/ctclip-preprocess.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.transforms import resample
from medtune.data.types import Volume


@dataclass(frozen=True, slots=True)
class CTChatTransform:
    """Transforms a volume to (1, T, H, W) in [-1, 1]: T is k, H is i, W is j, whatever the orientation.

    Attributes:
        spacing_mm: The spacing in plane, in plane, and along k. The scan's spacing along i is used for j as well.
        size: The number of voxels H, W, T; the volume is cut or padded with -1 around the centre.
        clip_first: Whether values are cut off at +-1000 HU before they are resampled (encoding) or after (CT-CLIP's
            training).
    """

    version: ClassVar[int] = 1
    organs: ClassVar[tuple[str, ...]] = ()
    spacing_mm: tuple[float, float, float] = (0.75, 0.75, 1.5)
    size: tuple[int, int, int] = (480, 480, 240)
    clip_first: bool = True

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns the transformed volume, (1, T, H, W)."""
        in_plane, _, along = volume.spacing_mm
        values = volume.hu_IJK.astype(np.float64)
        if self.clip_first:
            values = np.clip(values, -1000, 1000)
        size = tuple(
            # The fraction is cut off, not rounded, so that 431.99999999999994 voxels become 431 as in training.
            int(count * (spacing / target))
            for count, spacing, target in zip(values.shape, (in_plane, in_plane, along), self.spacing_mm, strict=True)
        )
        resized = resample.linear(values[None], size, dtype=np.float64)
        scaled = np.clip(resized, -1000, 1000) / 1000
        return resample.centred(scaled.astype(np.float32), self.size, pad=-1.0).transpose(0, 3, 1, 2)


ENCODE = CTChatTransform()
"""The transform of CT-CHAT's encoding script: 480 x 480 x 240 voxels of 0.75 x 0.75 x 1.5 mm."""

PAPER = CTChatTransform(spacing_mm=(1.5, 1.5, 1.5), size=(300, 300, 600))
"""300 x 300 x 600 voxels of 1.5 mm. Source: the seed paper's Table 2; the public code has no such size."""
