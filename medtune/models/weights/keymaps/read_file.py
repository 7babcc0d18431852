"""Reads the tensors of a published checkpoint without running any code that its files may hold."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

_WRAPPERS = ("state_dict", "model", "module")


def read_tensors(paths: list[Path]) -> dict[str, Tensor]:
    """Returns the tensors of one checkpoint, which may consist of several files.

    Raises:
        FileNotFoundError: A file does not exist, or no file is named.
        ValueError: A file is damaged or holds other things than tensors, or a name occurs in two files.
    """
    if not paths:
        raise FileNotFoundError("no checkpoint file to read")
    whole: dict[str, Tensor] = {}
    for path in paths:
        for name, tensor in _read(path).items():
            if name in whole:
                raise ValueError(f"{path}: {name} stands in another file of this checkpoint too")
            whole[name] = tensor
    return whole


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise ValueError(
            f"{path}: not a whole checkpoint of tensors alone ({type(error).__name__}). Download it again; a file with "
            "other Python objects in it is never opened."
        ) from error
    for wrapper in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"{path}: holds something other than named tensors")
    return found
