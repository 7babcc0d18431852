"""What every model's preparation is: a frozen record of its settings that turns a volume into a float32 array."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
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

    @property
    def organs(self) -> tuple[str, ...]:
        """Whose masks it reads, where the scan has them."""
        ...

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns what the tower reads for one volume, channels first."""
        ...


def transform_hash(transform: VolumeTransform) -> str:
    """Returns 16 hex digits that differ wherever two preparations differ in kind, version or settings."""
    return hashlib.sha256(json.dumps(_said(transform)).encode()).hexdigest()[:16]


def _said(value: Any) -> Any:
    """Returns a record with its kind, version and settings; one preparation may hold another."""
    if not is_dataclass(value):
        return value
    settings = [[field.name, _said(getattr(value, field.name))] for field in fields(value)]
    return [type(value).__name__, getattr(value, "version", None), settings]
