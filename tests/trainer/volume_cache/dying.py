"""A transform that is slow or ends its process; processes that fill a cache import this and no model."""

import os
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid
from medtune.data.media.volumes.transforms.transform import Kept
from medtune.data.types import Volume


@dataclass(frozen=True)
class Dying:
    """A transform whose process is ended by some scan, as by a crash or by the kernel."""

    version: ClassVar[int] = 1
    organs: ClassVar[tuple[str, ...]] = ()
    kept_as: ClassVar[str] = "one number"
    where: str = ""

    def keep(self, volume: Volume) -> Kept:
        if int(volume.hu_IJK[0, 0, 0]) == -7:
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.where:
            time.sleep(0.3)
        return Kept(volume.hu_IJK[:4, :4, :4])

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        return np.asarray(kept.values, dtype=np.float32)

    def most_bytes(self, grid: Grid) -> int:
        return 128

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))
