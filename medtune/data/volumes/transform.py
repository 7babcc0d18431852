"""What every model's preparation is: a frozen record of its settings that turns a volume into a float32 array."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Volume


class VolumeTransform(Protocol):
    """Prepares volumes for one tower; a frozen dataclass, so that its fields say all there is to say.

    Attributes:
        version: Raised when the same settings could give other numbers.
    """

    version: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns what the tower reads for one volume, channels first."""
        ...


def transform_hash(transform: VolumeTransform) -> str:
    """Returns 16 hex digits that differ wherever two preparations differ in kind, version or settings."""
    said = [type(transform).__name__, transform.version, asdict(transform)]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
