"""Reads volumes stored as arrays of values from 0 to 1, which a file volumes.json converts to Hounsfield units.

M3D publishes its volumes in this form. A file `volumes.json` in the folder of the arrays, or in one above it, describes
all of them:

    {"hu_window": [-160, 240], "spacing_mm": [5.0, 0.8, 0.8], "orientation": "LPS"}

hu_window states the Hounsfield units of the values 0 and 1. spacing_mm states the size of a voxel along the array's own
axes: slices, rows, columns. orientation states the directions in which columns, rows and slices grow; its default
"LPS" means to the patient's left, to the back and to the head.

Shape legend: D slices, H rows, W columns; I, J, K are a volume's axes: W, H, D.

Source: BAAI-DCAI/M3D, Bench/dataset/multi_dataset.py (arrays of 1 x 32 x 256 x 256 in [0, 1]) and
Data/process/m3d_cap_data_prepare.py (scaled by each volume's own minimum and maximum, resized, neither kept).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medtune.data.catalog import nearest
from medtune.data.files import json_file
from medtune.data.media.volumes.geometry import compact_hu
from medtune.data.types import Volume

ARRAY_SUFFIX = ".npy"
MEANING_FILE = "volumes.json"
_FIELDS = ("hu_window", "spacing_mm", "orientation")
_WHY = {
    "hu_window": "values from 0 to 1 are no Hounsfield units, which windows, thresholds and every other model go by",
    "spacing_mm": "without the size of a voxel nothing can be measured or resampled",
}
_EXAMPLE = '{"hu_window": [-160, 240], "spacing_mm": [5.0, 0.8, 0.8]}'
_ROUNDING = 1e-4

_AXES = {"L": "x", "R": "x", "A": "y", "P": "y", "S": "z", "I": "z"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of the values and axes of volume arrays."""

    hu_window: tuple[float, float]  # The Hounsfield units of the values 0 and 1.
    spacing_mm: tuple[float, float, float]  # The size of a voxel along D, H and W.
    orientation: str = "LPS"  # The directions in which W, H and D grow, as in `Volume`.


def read_meaning(folder: Path) -> Meaning:
    """Returns the meaning of the volume arrays that volumes.json in a folder states."""
    file = folder / MEANING_FILE
    if not file.is_file():
        raise ValueError(
            f"{file}: there is no such file, and {ARRAY_SUFFIX} volumes need it: {_WHY['hu_window']}; "
            f"{_WHY['spacing_mm']}. The arrays state neither. Write it, e.g. {_EXAMPLE}, with what 0 and 1 were and "
            "the size of a voxel along slices, rows and columns, in mm"
        )
    said = json_file(file, dict, f"an object like {_EXAMPLE}", todo="Correct it.")
    for name in said:
        if name not in _FIELDS:
            raise ValueError(
                f"{file}: unknown field {name!r}.{nearest(name, _FIELDS)} It may hold {', '.join(_FIELDS)}"
            )
    low, high = _numbers(said, "hu_window", 2, file)
    if not low < high:
        raise ValueError(f"{file}: field 'hu_window': wanted the lower value first, got {[low, high]}")
    slices, rows, columns = _numbers(said, "spacing_mm", 3, file)
    if min(slices, rows, columns) <= 0:
        raise ValueError(f"{file}: field 'spacing_mm': wanted three sizes above 0, got {[slices, rows, columns]}")
    orientation = said.get("orientation", "LPS")
    if not isinstance(orientation, str) or sorted(_AXES.get(letter, "?") for letter in orientation) != ["x", "y", "z"]:
        raise ValueError(
            f"{file}: field 'orientation': wanted three letters for columns, rows and slices like 'LPS', got "
            f"{orientation!r}"
        )
    return Meaning((low, high), (slices, rows, columns), orientation)


def read_scaled_array(path: Path) -> Volume:
    """Returns the volume in an array file, in whole Hounsfield units; the nearest volumes.json gives its meaning."""
    folders = [folder for folder in path.absolute().parents if (folder / MEANING_FILE).is_file()]
    meaning = read_meaning(folders[0] if folders else path.parent)
    values_DHW = _values(path)
    low, high = meaning.hu_window
    hu_IJK = np.ascontiguousarray(np.rint(low + values_DHW * (high - low)).transpose(2, 1, 0))
    depth_mm, height_mm, width_mm = meaning.spacing_mm
    return Volume(compact_hu(hu_IJK, where=str(path)), (width_mm, height_mm, depth_mm), meaning.orientation)


def _values(path: Path) -> NDArray[np.float64]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such volume. Check the path.")
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a whole array ({type(error).__name__}). Copy or download it again.") from error
    if values.ndim == 4 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 3 or 0 in values.shape or values.dtype.kind != "f":
        raise ValueError(
            f"{path}: wanted one volume of numbers, (1, slices, rows, columns), got {values.dtype} {values.shape}."
        )
    lowest, highest = float(values.min()), float(values.max())
    if not (lowest >= -_ROUNDING and highest <= 1 + _ROUNDING):
        raise ValueError(f"{path}: wanted values from 0 to 1, got {lowest:g} to {highest:g}.")
    clipped: NDArray[np.float64] = np.clip(values.astype(np.float64), 0, 1)
    return clipped


def _numbers(said: dict[str, object], name: str, count: int, file: Path) -> list[float]:
    found = said.get(name)
    if not isinstance(found, list) or len(found) != count or not all(map(_is_number, found)):
        got = f"got {json.dumps(found)}" if name in said else "it is missing"
        raise ValueError(f"{file}: field {name!r}: wanted a list of {count} numbers, {got}: {_WHY[name]}")
    return [float(each) for each in found]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))
