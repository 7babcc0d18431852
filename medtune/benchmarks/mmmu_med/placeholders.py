"""Puts the places of images into MMMU's questions, which say "<image 1>" in their text and in their options."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from medtune.data.types import MEDIA_MARK

_PLACEHOLDER = re.compile(r"<image (\d+)>")


class PlacedImages(NamedTuple):
    """A question with the places of its images.

    Attributes:
        text: The question; each mark is the place of an image.
        options: The options, which name images in words.
        images: The numbers of the images in the order of their places.
    """

    text: str
    options: tuple[str, ...]
    images: tuple[int, ...]


def placed_images(text: str, options: Sequence[str]) -> PlacedImages:
    r"""Returns a question with marks in place of its placeholders.

    Every image is shown once, where the text first speaks of it. An image of which only options speak is shown behind
    the text. An image that is spoken of again, or in an option, is shown behind its name.

    Example:
        >>> placed_images("<image 1> What is it?", ["cyst", "stone"]).text.replace(MEDIA_MARK, "#")
        '# What is it?'
        >>> found = placed_images("Which one follows <image 1>?", ["<image 2>", "<image 3>"])
        >>> found.text.replace(MEDIA_MARK, "#"), found.options, found.images
        ('Which one follows #?\nimage 2: #\nimage 3: #', ('image 2', 'image 3'), (1, 2, 3))
    """
    spoken = Counter(int(number) for part in (text, *options) for number in _PLACEHOLDER.findall(part))
    in_options = {int(number) for option in options for number in _PLACEHOLDER.findall(option)}
    shown: list[int] = []

    def place(found: re.Match[str]) -> str:
        number = int(found[1])
        if number in shown:
            return f"image {number}"
        shown.append(number)
        return f"image {number}: {MEDIA_MARK}" if spoken[number] > 1 or number in in_options else MEDIA_MARK

    said = _PLACEHOLDER.sub(place, text)
    behind = [number for number in sorted(in_options) if number not in shown]
    lines = [said, *(f"image {number}: {MEDIA_MARK}" for number in behind)]
    return PlacedImages("\n".join(lines), tuple(map(named_images, options)), (*shown, *behind))


def named_images(option: str) -> str:
    """Returns an option with its images' names, such as "image 2", in place of placeholders."""
    return _PLACEHOLDER.sub(r"image \1", option)
