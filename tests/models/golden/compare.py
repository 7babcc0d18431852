"""Compares a computed tensor with its recorded values, and describes the first difference in words."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STATISTICS = ("mean", "std", "min", "max")


def compare(found: NDArray[Any], record: Mapping[str, Any], *, rtol: float, atol: float) -> str | None:
    """Returns the first difference of a tensor from its record (shape, recorded values, statistics), or None.

    A value may differ by atol + rtol * |recorded value|; integers must be equal. A statistic over the whole tensor may
    differ by atol + rtol * the largest magnitude in the tensor.
    """
    if list(found.shape) != list(record["shape"]):
        return f"shape {tuple(found.shape)}, recorded {tuple(record['shape'])}"
    if "position_0" in record:
        return _compare_ids(found, record)
    wanted = np.asarray(record["values"])
    index = record.get("index")
    values = found.reshape(-1) if index is None else found.reshape(-1)[np.asarray(index, dtype=np.intp)]
    if np.issubdtype(found.dtype, np.integer) or str(record.get("dtype", "")).startswith("int"):
        return _equal(values, wanted, index)
    distance = np.abs(values.astype(np.float64) - wanted)
    distance[np.isnan(distance)] = np.inf
    wrong = np.flatnonzero(distance > atol + rtol * np.abs(wanted))
    if wrong.size:
        first = int(wrong[0])
        place = int(index[first]) if index is not None else first
        return (
            f"{wrong.size} of {wanted.size} recorded values differ; the first at {_place(place, found.shape)}: "
            f"{values[first]:.7g}, recorded {wanted[first]:.7g}"
        )
    return _statistics(found, record, rtol=rtol, atol=atol) or _extras(found, record, rtol, atol)


def _statistics(found: NDArray[Any], record: Mapping[str, Any], *, rtol: float, atol: float) -> str | None:
    if not found.size:
        return None
    wide = found.astype(np.float64)
    bound = atol + rtol * float(np.abs(wide).max(initial=0.0))
    for name in _STATISTICS:
        value = float(getattr(wide, name)())
        if name in record and abs(value - record[name]) > bound:
            return f"the {name} over all values is {value:.7g}, recorded {record[name]:.7g}"
    return None


def _extras(found: NDArray[Any], record: Mapping[str, Any], rtol: float, atol: float) -> str | None:
    if "first_channel_of_every_token" in record:
        # One list, or one list for each row of the batch.
        wanted = np.asarray(record["first_channel_of_every_token"]).reshape(-1)
        values = found[..., 0].reshape(-1)
        if len(wanted) != len(values):
            return f"{len(values)} tokens, but the first channel of {len(wanted)} tokens is recorded"
        wrong = np.flatnonzero(np.abs(values - wanted) > atol + rtol * np.abs(wanted))
        if wrong.size:
            return f"token {wrong[0]}: first channel {values[wrong[0]]:.7g}, recorded {wanted[wrong[0]]:.7g}"
    if "content_box_last_3_axes" in record:
        box = record["content_box_last_3_axes"]
        filled = (found != np.float32(box["not_equal_to"])).reshape(-1, *found.shape[-3:]).any(axis=0)
        for axis, (low, high) in enumerate(box["lo_hi"]):
            along = np.flatnonzero(filled.any(axis=tuple(other for other in range(3) if other != axis)))
            if (along[0], along[-1] + 1) != (low, high):
                return f"content fills {along[0]}..{along[-1] + 1} of axis {axis - 3}, recorded {low}..{high}"
    return None


def _compare_ids(found: NDArray[Any], record: Mapping[str, Any]) -> str | None:
    rows = zip(found, record["position_0"], record["positions_1_to_256_all_equal"], strict=True)
    for (row, first, media), rest in zip(rows, record["from_position_257"], strict=True):
        if difference := _equal(row, np.asarray([first, *(media,) * 256, *rest]), None):
            return difference
    return None


def _equal(values: NDArray[Any], wanted: NDArray[Any], index: list[int] | None) -> str | None:
    wrong = np.flatnonzero(values != wanted)
    if not wrong.size:
        return None
    first = int(wrong[0])
    return (
        f"{wrong.size} of {wanted.size} ids differ; the first at {first if index is None else index[first]}: "
        f"{values[first]}, recorded {wanted[first]}"
    )


def _place(flat: int, shape: tuple[int, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"
