"""Defines a volume transform: a frozen record of settings that turns a volume into the float32 array a model reads."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid
from medtune.data.types import Volume


class Kept(NamedTuple):
    """What a cache keeps of a transformed volume: the dear part of the work, in few bytes."""

    values: NDArray[np.generic]
    about: Mapping[str, str] = MappingProxyType({})  # What else is needed to finish it, as text.


class VolumeTransform(Protocol):
    """Transforms volumes for one tower; a frozen dataclass whose fields are all of its settings.

    The work is done in two steps, so that a cache can lie between them: a transformed volume is `finish(keep(volume))`,
    to the bit, whether what was kept has been on disk or not.
    """

    version: ClassVar[int]  # A number that is raised when the same settings could give or keep other values.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def organs(self) -> tuple[str, ...]:
        """The organs whose masks the transform reads, if the scan has them."""
        ...

    @property
    def kept_as(self) -> str: ...

    def keep(self, volume: Volume) -> Kept:
        """Returns the smallest array from which `finish` makes the transformed volume without dear work."""
        ...

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        """Returns the array that the tower reads for one volume, channels first, from what was kept of it."""
        ...

    def most_bytes(self, grid: Grid) -> int:
        """Returns the bytes of what is kept of a volume of int16 on a grid, or of a crop of it, at most."""
        ...

    def __call__(self, volume: Volume) -> NDArray[np.float32]: ...


def transform_hash(transform: VolumeTransform) -> str:
    """Returns 16 hex digits that differ if two transforms differ in kind, version or settings."""
    return hashlib.sha256(json.dumps(_settings_record(transform)).encode()).hexdigest()[:16]


def _settings_record(value: Any) -> Any:
    if not is_dataclass(value):
        return value
    settings = [[field.name, _settings_record(getattr(value, field.name))] for field in fields(value)]
    return [type(value).__name__, getattr(value, "version", None), settings]
