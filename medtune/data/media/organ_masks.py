"""Matches names of organ masks: those of the organ that a question names, and those of the other side of the body."""

from collections.abc import Iterable

_OPPOSITE = {"left": "right", "right": "left"}


def masks_of(organ: str, masks: Iterable[str]) -> tuple[str, ...]:
    """Returns the masks whose names contain every word of an organ's name, in their order; none for "".

    Example:
        >>> masks_of("kidney", ["kidney_left", "kidney_right", "liver"])
        ('kidney_left', 'kidney_right')
        >>> masks_of("left kidney", ["kidney_left", "kidney_right", "liver"])
        ('kidney_left',)
    """
    words = set(organ.lower().split())
    return tuple(mask for mask in masks if words and words <= set(mask.lower().split("_")))


def other_side(mask: str) -> str:
    """Returns the name of the organ mask on the other side of the body; an organ without sides keeps its name.

    Example:
        >>> [other_side(mask) for mask in ("kidney_left", "rib_right_1", "liver")]
        ['kidney_right', 'rib_left_1', 'liver']
    """
    return "_".join(_OPPOSITE.get(word, word) for word in mask.split("_"))
