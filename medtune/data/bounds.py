"""Bounds of the fields of settings, which stand in their types: `Annotated[float, Interval(gt=0)]`.

Every number of a recipe has bounds, so that what a run could not use is refused in one place, by the field's name.
"""

import dataclasses
import math
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from annotated_types import Interval

LARGEST = 2**31 - 1
"""The largest count that every library below takes."""
_MANY, _MOST_DIGITS = 1e9, 40

Count = Annotated[int, Interval(ge=1, le=LARGEST)]
Share = Annotated[float, Interval(ge=0, le=1)]
PartlyShare = Annotated[float, Interval(ge=0, lt=1)]
Positive = Annotated[float, Interval(gt=0, le=_MANY)]
NotNegative = Annotated[float, Interval(ge=0, le=_MANY)]
Epochs = Annotated[float, Interval(gt=0, le=1e6)]
Minutes = Annotated[float, Interval(gt=0, le=525_600)]
Weight = Annotated[float, Interval(ge=-1000, le=1000)]
Draws = Annotated[int, Interval(ge=1, le=10_000)]


@dataclasses.dataclass(frozen=True, slots=True)
class Spelled:
    """The form of a text: a regular expression that it has to match in full, and the same in words."""

    pattern: str
    wanted: str


PROJECT = Spelled(r"[^/\\#?%:\s][^/\\#?%:\n]{0,127}", "1 to 128 signs without / \\ # ? % :")
"""A name of a project on W&B. Source: wandb 0.31.0, `Settings.validate_project`."""


def check_bounds(settings: object, *, where: str = "") -> None:
    """Refuses settings with a number that is not finite or lies outside of its bounds, or with a text of another form.

    Args:
        settings: A dataclass, whose fields may be dataclasses, and lists and mappings of these.
        where: The place of the settings with its final dot, for messages.
    """
    for name, value, bound in _values(settings, where):
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float):
            _check_number(name, value, bound if isinstance(bound, Interval) else Interval())
        elif isinstance(bound, Spelled) and not re.fullmatch(bound.pattern, str(value)):
            raise ValueError(f"{name} is {value!r}; it must be {bound.wanted}")
        elif any(ord(sign) < ord(" ") and sign not in "\t\n\r" for sign in str(value)):
            raise ValueError(f"{name} is {value!r}; it holds a control character, which no name or text may: remove it")


def bounds_of(kind: type) -> dict[str, object]:
    """Returns the bounds of each field of a dataclass that has some: of the value itself, or of what it holds."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {field.name: _bound(hints[field.name]) for field in dataclasses.fields(kind)}
    return {name: bound for name, bound in found.items() if bound is not None}


def _bound(hint: Any) -> object | None:
    for held in getattr(hint, "__metadata__", ()):
        if isinstance(held, Interval | Spelled):
            return held
    return next((found for each in typing.get_args(hint) if (found := _bound(each)) is not None), None)


def _values(settings: Any, where: str) -> Iterator[tuple[str, object, object | None]]:
    bounds = bounds_of(type(settings))
    for field in dataclasses.fields(settings):
        yield from _below(getattr(settings, field.name), f"{where}{field.name}", bounds.get(field.name))


def _below(value: Any, name: str, bound: object | None) -> Iterator[tuple[str, object, object | None]]:
    if dataclasses.is_dataclass(value):
        yield from _values(value, f"{name}.")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _below(each, f"{name}.{key}", bound)
    elif isinstance(value, tuple | list):
        for number, each in enumerate(value):
            yield from _below(each, f"{name}.{number}", bound)
    else:
        yield name, value, bound


def _check_number(name: str, value: float, bound: Interval) -> None:
    low, above, high, below = (_number(each) for each in (bound.ge, bound.gt, bound.le, bound.lt))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}; it must be {_range_text(low, above, high, below) or 'a number'}")
    too_low = (low is not None and value < low) or (above is not None and value <= above)
    too_high = (high is not None and value > high) or (below is not None and value >= below)
    if not too_low and not too_high:
        return
    most = high if below is None else below
    if most is not None and most > 1:
        # Where the range is wide, its other end says nothing.
        low, above, high, below = (low, above, None, None) if too_low else (None, None, high, below)
    raise ValueError(f"{name} is {_number_text(value)}; it must be {_range_text(low, above, high, below)}")


def _number_text(value: float) -> str:
    digits = int(value.bit_length() * math.log10(2)) if isinstance(value, int) else 0
    return f"a number of {digits} digits" if digits > _MOST_DIGITS else str(value)


def _number(bound: Any) -> float | None:
    return None if bound is None else float(bound) if isinstance(bound, float) else int(bound)


def _range_text(low: float | None, above: float | None, high: float | None, below: float | None) -> str:
    if low is not None and high is not None:
        return f"from {low:,} to {high:,}"
    parts = (("at least", low), ("above", above), ("below", below), ("at most", high))
    return " and ".join(f"{word} {number:,}" for word, number in parts if number is not None)
