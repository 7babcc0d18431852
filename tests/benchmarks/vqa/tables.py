"""Writes small tables and pictures for tests of the door, and reads them."""

from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks import find_source
from medtune.data.raw.row_errors import TableOptions
from medtune.data.raw.source import SourceTable


def pictures(folder: Path, number: int) -> list[str]:
    """Writes pictures that do not look alike, and returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        grey_HW = np.random.default_rng(index).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / f"us_{index}.png")
    return [f"us_{index}.png" for index in range(number)]


def read(origin: Path, options: TableOptions | None = None, *, name: str = "table") -> SourceTable:
    """Returns the table that a source reads with these options."""
    source = find_source(name)
    assert source.with_options is not None
    (scratch := origin.parent / f"scratch of {origin.name}").mkdir(exist_ok=True)
    return source.with_options(options or TableOptions()).read(origin, 0, scratch)


def read_text(folder: Path, text: str, options: TableOptions | None = None, *, file: str = "data.csv") -> SourceTable:
    """Returns the table that is read from a file with that text, beside which six pictures lie."""
    pictures(folder, 6)
    (folder / file).write_bytes(text.encode())
    return read(folder / file, options)
