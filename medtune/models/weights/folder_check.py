"""Refuses a folder of weights whose files lead out of it, or ask for code of others.

The code that a checkpoint brings itself (auto_map) transformers refuses, because medtune never lets it run.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from medtune.data.files import json_file

if TYPE_CHECKING:
    from torch import Tensor

_LONGEST = 300
_AGAIN = "The file is damaged. Copy or download the folder again."
_ATTENTION = ("attn_implementation", "experts_implementation")
"""Endings of the fields of a configuration that may name a repository with compiled code, which transformers would
fetch and run.

Source: transformers 5.23.0, integrations/hub_kernels.py.
"""


def check_folder(folder: Path) -> None:
    """Reads the small files of a checkpoint that name other files or code.

    Raises:
        ValueError: An index names a file outside the folder, or a configuration names code.
    """
    for index in sorted(folder.glob("*.index.json")):
        named = json_file(index, dict, "an index of weights", todo=_AGAIN).get("weight_map", {})
        if not isinstance(named, dict) or not all(isinstance(each, str) for each in named.values()):
            raise ValueError(f"{index}: weight_map has to give the file of each tensor. {_AGAIN}")
        for name in sorted(set(named.values())):
            if leads_out(name):
                raise ValueError(
                    f"{index}: weight_map names {name!r}, which lies outside the folder; the files of a checkpoint lie "
                    f"in its own folder. {_AGAIN}"
                )
    config = folder / "config.json"
    if config.is_file():
        for field, value in _fields(json_file(config, dict, "a model's configuration", todo=_AGAIN)):
            if field.endswith(_ATTENTION) and "/" in str(value):
                raise ValueError(
                    f"{config}: {field} is {value!r:.80}, a repository whose code would run here. medtune runs no code "
                    "that a checkpoint names: leave the field out in a copy of the folder"
                )


def why_unread(error: Exception) -> str:
    """Returns in one line why a library could not read a file of a checkpoint; an error of the system is raised anew.

    Whatever is wrong with a configuration, a tokenizer or weights, transformers raises any kind of error for it.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


def whole_tensors(path: Path) -> "dict[str, Tensor]":
    """Returns the tensors of a safetensors file, which has to be there and whole."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise ValueError(f"{path}: no such file; copy the folder again, with the folders in it")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error}). Copy the folder again.") from error


def leads_out(name: str) -> bool:
    r"""Returns whether a file's name, as written on any system, lies outside the folder that it is relative to.

    >>> leads_out("model-00001-of-00002.safetensors"), leads_out("../outside.safetensors"), leads_out("C:\\x")
    (False, True, True)
    """
    return any(
        path.is_absolute() or path.drive or ".." in path.parts for path in (PurePosixPath(name), PureWindowsPath(name))
    )


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key), each
            yield from _fields(each)
    elif isinstance(value, list):
        for each in value:
            yield from _fields(each)
