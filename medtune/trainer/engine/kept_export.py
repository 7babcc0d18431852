"""Keeps the merged export of a run's model for servers, in a folder whose name changes with the weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from medtune.models.weights.assets import cache_folder
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.version import __version__

_HASH_LENGTH = 16


def kept_export(run: RunFolder, export: Callable[[Path, Path], object]) -> Path:
    """Returns the folder with the merged model of a run; writes it where it is not kept from an earlier time.

    Servers remember what they computed under the name and path of a model. A folder is therefore never written twice:
    other weights get another folder.

    Args:
        run: The run folder.
        export: Writes the model of a run folder into a new folder.

    Raises:
        FileNotFoundError: The run or its weights do not exist.
        ValueError: The weights do not fit the recipe.
    """
    folder = cache_folder() / "served" / _name(run)
    if not folder.is_dir():
        export(run.root, folder)
    return folder


def _name(run: RunFolder) -> str:
    """Returns a name that depends on the trained weights, on those that they were trained from, and on the recipe."""
    recipe = run.read_recipe()
    hashed = hashlib.sha256(f"{__version__}\n{recipe_to_yaml(recipe)}".encode())
    trained = run.best if run.has_best else recipe.model.checkpoint
    if trained is not None:
        for path in sorted(trained.iterdir()) if trained.is_dir() else [trained]:
            with path.open("rb") as file:
                hashed.update(hashlib.file_digest(file, "sha256").digest())
    base = Path(recipe.model.weights) if recipe.model.weights else None
    if base is not None and base.is_dir():
        for path in sorted(each for each in base.rglob("*") if each.is_file()):
            about = path.stat()
            hashed.update(f"{path.relative_to(base)} {about.st_size} {about.st_mtime_ns}\n".encode())
    return f"{recipe.model.name}-{hashed.hexdigest()[:_HASH_LENGTH]}"
