"""Defines a volume transform: a frozen record of settings that turns a volume into the float32 array a model reads."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Volume


class VolumeTransform(Protocol):
    """Transforms volumes for one tower; a frozen dataclass whose fields are all of its settings.

    Attributes:
        version: A number that is raised when the same settings could give other values.
    """

    version: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def organs(self) -> tuple[str, ...]:
        """The organs whose masks the transform reads, if the scan has them."""
        ...

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns the array that the tower reads for one volume, channels first."""
        ...


def transform_hash(transform: VolumeTransform) -> str:
    """Returns 16 hex digits that differ if two transforms differ in kind, version or settings."""
    return hashlib.sha256(json.dumps(_said(transform)).encode()).hexdigest()[:16]


def _said(value: Any) -> Any:
    """Returns a transform's kind, version and settings; one transform may contain another."""
    if not is_dataclass(value):
        return value
    settings = [[field.name, _said(getattr(value, field.name))] for field in fields(value)]
    return [type(value).__name__, getattr(value, "version", None), settings]
