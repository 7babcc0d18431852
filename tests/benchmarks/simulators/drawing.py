"""Makes all files of a simulation at once, as a test needs them."""

from dataclasses import replace
from typing import Any

from medtune.data.raw.source import SourceTable


def drawn(table: SourceTable) -> SourceTable:
    """Returns the table when its files are made."""
    all_made(table)
    return replace(table, draws={})


def all_made(table: SourceTable) -> list[Any]:
    """Makes the files, each folder by one call, and returns what the calls return."""
    return [draw.make() for draw in {draw.folder: draw for draw in table.draws.values()}.values()]
