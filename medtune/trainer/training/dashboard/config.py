"""Selects the settings of a run that are sent to W&B: all that decide the numbers, and no folder of the user."""

import dataclasses
from pathlib import Path

from medtune.data.prepared.manifest import Manifest
from medtune.eval.data_label import DataLabel
from medtune.trainer.experiment.environment import environment
from medtune.trainer.recipe.read import recipe_tree
from medtune.trainer.recipe.schema import Recipe

_MAY_NAME_FILES = ("notes",)


def logged_config(recipe: Recipe, manifest: Manifest, label: DataLabel) -> dict[str, object]:
    """Returns the recipe, the data's manifest and label, and the environment, in the form that is sent to W&B.

    Only the last part of each path is kept, and no address of a server. The command line and the notes of the source
    are left out, because they may hold folders and file names of a hospital.
    """
    checkpoint, endpoint = recipe.model.checkpoint, recipe.model.endpoint
    unnamed = endpoint and dataclasses.replace(endpoint, base_url="", key_env=None, cache=None)
    named = dataclasses.replace(
        recipe,
        data=dataclasses.replace(
            recipe.data,
            root=Path(recipe.data.root.name),
            mixture=tuple(dataclasses.replace(part, root=Path(part.root.name)) for part in recipe.data.mixture),
        ),
        model=dataclasses.replace(recipe.model, checkpoint=checkpoint and Path(checkpoint.name), endpoint=unnamed),
    )
    data = {key: value for key, value in dataclasses.asdict(manifest).items() if key not in _MAY_NAME_FILES}
    around = {key: value for key, value in environment(()).items() if key != "command"}
    return {**recipe_tree(named), "manifest": data, "label": label.facts(), "environment": around}
