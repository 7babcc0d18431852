"""Reads what the trained weights that a recipe begins with say about themselves."""

from collections.abc import Iterator, Mapping

from medtune.models.weights.adapters.read import adapter_folder
from medtune.models.weights.adapters.write import read_about_adapter
from medtune.models.weights.checkpoint import read_about
from medtune.models.weights.export import is_exported, read_exported
from medtune.trainer.recipe.schema import ModelBlock


def facts_before(model: ModelBlock) -> Iterator[Mapping[str, str]]:
    """Yields the facts of the recipe's exported weights, of its adapter and of its checkpoint, where there are such.

    Raises:
        AssetError: The adapter cannot be downloaded.
    """
    if model.weights is not None and is_exported(model.weights):
        yield read_exported(model.weights)
    if model.adapter is not None:
        yield read_about_adapter(adapter_folder(model.adapter))
    if model.checkpoint is not None:
        yield read_about(model.checkpoint)
