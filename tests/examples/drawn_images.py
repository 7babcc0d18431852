"""Draws small images with a square or a disc, for the examples of sources."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw

_SIZE = 48


def write_drawn_images(folder: Path, names: Sequence[str], *, first: int = 0) -> None:
    """Writes an image under each name, with the numbers from `first` on."""
    for number, name in enumerate(names, start=first):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(drawn_image(number))


def drawn_image(number: int) -> bytes:
    """Returns the PNG file of an image, different for each number: a square for odd numbers, a disc for even ones."""
    draw = np.random.default_rng(number)
    # Coarse fields tell the images apart for a perceptual hash.
    fields = PIL.Image.fromarray(draw.integers(0, 150, (6, 6, 3), dtype=np.uint8))
    image = fields.resize((_SIZE, _SIZE), PIL.Image.Resampling.NEAREST)
    left, top = (int(place) for place in draw.integers(4, 20, 2))
    pen, box = PIL.ImageDraw.Draw(image), (left, top, left + 22, top + 22)
    (pen.rectangle if number % 2 else pen.ellipse)(box, fill=(220, 220, int(draw.integers(90, 250))))
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
