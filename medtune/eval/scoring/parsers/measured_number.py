"""Reads a number with its unit from a reply, in the unit of the question: "5 cm" is 50 where mm are asked for."""

import re

from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.free_answer import read_answer
from medtune.eval.scoring.parsers.number_parsers import read_number

_SIZES: dict[str, dict[str, float]] = {
    "length": {"μm": 0.001, "mm": 1, "cm": 10, "dm": 100, "m": 1000},
    "volume": {"mm3": 0.001, "ml": 1, "cm3": 1, "dl": 100, "l": 1000},
    "mass": {"mg": 0.001, "g": 1, "kg": 1000},
    "time": {"ms": 0.001, "s": 1, "min": 60, "h": 3600},
    "age": {"days": 1, "weeks": 7},
    "share": {"%": 1},
    "density": {"hu": 1},
}
"""The size of each unit by what it measures, in one unit of each kind. Source: the SI brochure; 1 cm3 is 1 ml."""
_KINDS = {unit: kind for kind, units in _SIZES.items() for unit in units}
_QUANTITY = re.compile(
    rf"(?P<digits>\d+(?:\.\d+)?)\s*(?P<unit>{'|'.join(sorted(map(re.escape, _KINDS), key=len, reverse=True))})(?!\w)"
)


def read_measure(reply: str, unit: str | None) -> float | None:
    """Returns the one number that a reply states, in the unit of the question; None if it is not clear which.

    Quantities in other units of the same kind are converted, and those of another kind (kg where mm are asked for) do
    not count. A number without a unit counts as it is. Where the unit is not in the table of this module, or there is
    none, the reply is read by `read_number` alone.

    Example:
        >>> [read_measure(reply, "mm") for reply in ("5 cm", "about 12.5mm", "5 kg", "7", "two centimetres")]
        [50.0, 12.5, None, 7.0, 20.0]
        >>> read_measure("3 lesions", None)
        3.0
    """
    kind = None if unit is None else _KINDS.get(_short(unit))
    if unit is None or kind is None:
        return read_number(reply, unit)
    said, wanted = normalised(read_answer(reply) or ""), _short(unit)

    def converted(found: re.Match[str]) -> str:
        sizes = _SIZES[kind]
        if found["unit"] not in sizes:
            return " "
        return f"{float(found['digits']) * sizes[found['unit']] / sizes[wanted]:.12g} {wanted}"

    return read_number(_QUANTITY.sub(converted, said), wanted)


def _short(unit: str) -> str:
    return normalised(f"1 {unit}").removeprefix("1 ")
