"""Which masks belong to the organ that a question names."""

from __future__ import annotations

from collections.abc import Iterable


def masks_of(organ: str, masks: Iterable[str]) -> tuple[str, ...]:
    """Returns those of the masks whose names hold every word of the organ's, in their order; none for "".

    Example:
        >>> masks_of("kidney", ["kidney_left", "kidney_right", "liver"])
        ('kidney_left', 'kidney_right')
        >>> masks_of("left kidney", ["kidney_left", "kidney_right", "liver"])
        ('kidney_left',)
    """
    words = set(organ.lower().split())
    return tuple(mask for mask in masks if words and words <= set(mask.lower().split("_")))
