"""A prepared folder as a recipe's model looks at it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medtune.data.prepared.read import Prepared, open_prepared
from medtune.models.assemble import ZooEntry, any_entry
from medtune.trainer.recipe.schema import ModelBlock


def opened(root: Path, model: ModelBlock) -> Prepared:
    """Returns the folder; for a model that looks at one organ at a time, with a group for each organ of a volume.

    Raises:
        FileNotFoundError: The folder, or a media file in it, is missing.
        ValueError: It is no prepared folder, was written in another format, or is damaged.
    """
    prepared, entry = open_prepared(root), any_entry(model.name)
    by_organ = isinstance(entry, ZooEntry) and entry.by_organ and model.crop_organs is None
    return replace(prepared, by_organ=by_organ)
