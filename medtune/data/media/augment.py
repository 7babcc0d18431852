"""Augments training media: random changes of images, videos and volumes that leave a question's answer true.

Shapes: H height, W width, C channels.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.grouping import grouped
from medtune.data.types import Image, Media, MediaGroup, Question, Volume

Change = Literal["mirror", "move", "grey"]
"""A kind of change. "mirror" swaps left and right, "move" shifts and scales, "grey" changes grey values.

An image or video is moved by up to 5 % and scaled by up to 10 %, and its grey values get another gamma. A volume is
made smaller by up to 10 % and put anywhere in the scan, and its soft tissue gets up to 10 % more or less contrast and
up to 10 HU more or less.
"""
CHANGES: tuple[Change, ...] = get_args(Change)
AllowedChanges = Callable[[Question], frozenset[Change]]
"""A function that returns the changes which leave the answer of a question true, as its benchmark states."""

NO_CHANGES: frozenset[Change] = frozenset()
ALL_CHANGES: frozenset[Change] = frozenset(CHANGES)
# All of these patterns are matched with lower-case text.
_SIDES = re.compile(
    r"\b(left|right|(counter|anti)?clockwise|lateral\w*|medial\w*|dextro\w*|levo\w*|sinister|side\w*|"
    r"orient\w*|head (up|down)|h[du]v[bf])\b"
)
_PLACES = re.compile(r"\b(upper|lower|middle|cent(er|re)|top|bottom|where|position\w*|locat\w*)\b")
_LENGTHS = re.compile(r"\d\s?(mm|cm|cc|ml)\b")
_BRIGHTNESS = re.compile(r"\b(hu|hounsfield|contrast|phase|fatty|steatosis)\b|attenuat|dens(e|it)|enhanc")
_SHIFT, _SCALE, _GAMMA = 0.05, 0.1, 0.35


def allow_nothing(question: Question) -> frozenset[Change]:
    """Returns no kind of augmentation, which is what a benchmark that states nothing allows."""
    return NO_CHANGES


def changes_allowed_by_all(questions: Iterable[Question], allowed_changes: AllowedChanges) -> frozenset[Change]:
    """Returns the kinds of augmentation of an image that every one of the questions about it allows.

    Whatever `allowed_changes` returns, an image is not mirrored if a question, option or answer names a side or an
    orientation. It is not moved if one of them names a place or a length, or if a number is asked for. Its grey values
    stay if one of them is about density or contrast agent.

    >>> from medtune.data.types import Question
    >>> asked = Question("q", "m", "Which kidney?", ("left kidney", "right kidney"), "left kidney", "choice", "p")
    >>> sorted(changes_allowed_by_all([asked], lambda question: ALL_CHANGES))
    ['grey', 'move']
    """
    found = ALL_CHANGES
    for question in questions:
        found &= allowed_changes(question)
        if question.answer_kind == "number":
            found -= {"move"}
        earlier = (said for turn in question.turns for said in turn)
        found -= _spoilt(" ".join((*earlier, question.text, *question.options, question.answer)))
    return found


# Hundreds of thousands of questions use a few wordings.
@lru_cache(maxsize=1 << 16)
def _spoilt(said: str) -> frozenset[Change]:
    said = said.lower()
    spoilt: dict[Change, bool] = {
        "mirror": _SIDES.search(said) is not None,
        "move": (_PLACES.search(said) or _LENGTHS.search(said)) is not None,
        "grey": _BRIGHTNESS.search(said) is not None,
    }
    return frozenset(change for change, is_wrong in spoilt.items() if is_wrong)


def group_by_allowed_changes(
    group: MediaGroup, wanted: Collection[Change], allowed_changes: AllowedChanges
) -> list[MediaGroup]:
    """Splits a media group into groups whose questions allow the same of the wanted kinds of augmentation.

    One group of all questions would be changed only as all of them allow, and that would reveal answers: only questions
    about a lesion ask where it is, so that only healthy organs would be moved.
    """
    found = grouped(
        group.questions, lambda question: changes_allowed_by_all([question], allowed_changes) & frozenset(wanted)
    )
    return [replace(group, questions=tuple(members)) for members in found.values()]


def augment_media(media: Media, changes: Collection[Change], *, rng: np.random.Generator) -> Media:
    """Returns a randomly changed copy of an image, of every frame of a video, or of a volume.

    Mirroring happens half of the time. Red rectangles that were drawn stay pure red under "grey".
    """
    if isinstance(media, Volume):
        from medtune.data.media.volumes.augment import augment_volume

        return augment_volume(media, changes, rng=rng)
    # All numbers are drawn in any case, so that asking for one more change does not alter the others.
    is_mirrored = rng.random() < 0.5
    shift_x, shift_y = rng.uniform(-_SHIFT, _SHIFT, 2)
    scale = 1 + rng.uniform(-_SCALE, _SCALE)
    gamma = float(np.exp(rng.uniform(-_GAMMA, _GAMMA)))

    def one(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if "mirror" in changes and is_mirrored:
            pixels_HWC = pixels_HWC[:, ::-1]
        if "move" in changes:
            pixels_HWC = _moved(pixels_HWC, shift_x, shift_y, scale)
        if "grey" in changes:
            table = np.asarray(np.rint(255 * (np.arange(256) / 255) ** gamma), dtype=np.uint8)
            pixels_HWC = table[pixels_HWC]
        return np.ascontiguousarray(pixels_HWC)

    if isinstance(media, Image):
        return Image(one(media.pixels_HWC))
    return replace(media, frames_THWC=np.stack([one(frame_HWC) for frame_HWC in media.frames_THWC]))


def _moved(pixels_HWC: NDArray[np.uint8], shift_x: float, shift_y: float, scale: float) -> NDArray[np.uint8]:
    height, width = pixels_HWC.shape[:2]
    x0 = width / 2 * (1 - 1 / scale) - shift_x * width
    y0 = height / 2 * (1 - 1 / scale) - shift_y * height
    picture = PIL.Image.fromarray(pixels_HWC).transform(
        (width, height),
        PIL.Image.Transform.AFFINE,
        (1 / scale, 0, x0, 0, 1 / scale, y0),
        resample=PIL.Image.Resampling.BILINEAR,
    )
    return np.asarray(picture)
