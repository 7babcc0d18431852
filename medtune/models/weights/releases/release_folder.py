"""Finds the folder of a release, local or on the hub, and the files with its weights, each of which has to be there."""

from collections.abc import Sequence
from pathlib import Path

from medtune.models.weights.assets import AssetError
from medtune.models.weights.hub import checkpoint_folder
from medtune.models.weights.tokenizer import read_json

SMALL = ("*.json", "*.model", "*.txt", "*.jinja", "*.md")
"""Patterns for the files of a release that are read and checked before its weights are downloaded or opened."""
INDEX = "model.safetensors.index.json"
_ARCHIVES = ("*.z[0-9][0-9]", "*.zip", "zip.z*", "*.zip.[0-9]*", "*.7z*")


def release_folder(
    where: str | None, what: str, patterns: Sequence[str] | None = None, *, revision: str | None = None
) -> Path:
    """Returns the folder of a release: a local one, or one that is downloaded once from the hub.

    Args:
        where: Local folder or hub id; None where the user named no folder and the hub has none.
        what: Name of the checkpoint in words, for messages.
        patterns: Names of the files that are downloaded; None downloads all. A local folder is returned as it is.
        revision: Branch, tag or commit of the repository; None takes its main branch.

    Raises:
        AssetError: There is no such folder, and the hub cannot be reached or has no such repository.
    """
    if where is None:
        raise AssetError(f"{what} is not on the hub in a form that can be read; give the local folder that holds it")
    return checkpoint_folder(where, what=what, revision=revision, files=patterns)


def weight_files(folder: Path, patterns: Sequence[str], what: str) -> list[Path]:
    """Returns the files of a checkpoint: those that its index names, or those of the first pattern that fits any.

    Args:
        folder: The folder.
        patterns: Patterns for their names, the most wanted first.
        what: Name of the checkpoint in words, for messages.
    """
    index = folder / INDEX
    if index.is_file():
        named = read_json(index).get("weight_map")
        if not isinstance(named, dict) or not named:
            raise ValueError(f"{index}: names no files (weight_map); copy or download it again")
        paths = [folder / str(name) for name in sorted(set(named.values()))]
        if absent := [path.name for path in paths if not path.is_file()]:
            raise FileNotFoundError(
                f"{folder}: no {', '.join(absent)}, which {INDEX} names; copy or download the missing files of {what}"
            )
        return paths
    for pattern in patterns:
        if paths := sorted(folder.glob(pattern)):
            return paths
    archives = sorted({path.name for pattern in _ARCHIVES for path in folder.glob(pattern)})
    packed = ""
    if archives:
        packed = (
            f". There is an archive in parts ({', '.join(archives[:3])}): join them in their order with "
            "`cat PART... > whole.zip`, and unpack it there with `unzip whole.zip`"
        )
    raise FileNotFoundError(f"{folder}: no {' or '.join(patterns)}, which is where {what} should be{packed}")
