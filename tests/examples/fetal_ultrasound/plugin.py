"""The plugin in examples/fetal_ultrasound."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medtune.data.plugins import name_folders

PLUGIN = Path(__file__).resolve().parents[3] / "examples" / "fetal_ultrasound"


@contextmanager
def fetal_ultrasound() -> Iterator[None]:
    """Names the plugin while the context lasts."""
    name_folders([PLUGIN])
    try:
        yield
    finally:
        name_folders([])
