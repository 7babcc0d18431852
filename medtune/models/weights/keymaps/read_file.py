"""Reads the tensors of a published checkpoint without running any code that its files may hold.

Names, types and shapes are read first, from the headers of the files; the values of a tensor are read when they are
asked for, one tensor after another.
"""

import pickle
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

Deferred = Mapping[str, Callable[[], Tensor]]
"""Tensors by name, each as a function that reads or computes it."""

_WRAPPERS = ("state_dict", "model", "module")
_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """The tensors of a checkpoint in its files.

    Attributes:
        outline: The tensors by name without values, on the meta device: their types and shapes.
        tensors: The same tensors, each read from its file when it is called.
    """

    outline: dict[str, Tensor]
    tensors: Deferred


def at_hand(tensors: Mapping[str, Tensor]) -> Deferred:
    """Returns tensors in memory as functions that return them."""
    return {name: partial(_itself, tensor) for name, tensor in tensors.items()}


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def open_checkpoint(paths: list[Path]) -> Stored:
    """Returns the tensors of one checkpoint, which may consist of several files. No values are read yet."""
    if not paths:
        raise FileNotFoundError("no checkpoint file to read")
    outline: dict[str, Tensor] = {}
    tensors: dict[str, Callable[[], Tensor]] = {}
    for path in paths:
        one = _opened(path)
        for name in one.outline:
            if name in outline:
                raise ValueError(f"{path}: {name} stands in another file of this checkpoint too")
        outline |= one.outline
        tensors |= one.tensors
    return Stored(outline, tensors)


def _opened(path: Path) -> Stored:
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        return _safetensors(path) if path.suffix == ".safetensors" else _torch_file(path)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise ValueError(
            f"{path}: not a whole checkpoint of tensors alone ({type(error).__name__}); it has "
            f"{path.stat().st_size} bytes. Download it again; a file with other Python objects in it is never opened."
        ) from error


def _safetensors(path: Path) -> Stored:
    file: Any = safe_open(path, framework="pt")
    outline = {}
    for name in file.keys():  # noqa: SIM118 - the object is no mapping
        held = file.get_slice(name)
        if held.get_dtype() not in _TYPES:
            raise ValueError(f"{path}: {name} has the type {held.get_dtype()}, which no published release has")
        outline[name] = torch.empty(held.get_shape(), dtype=_TYPES[held.get_dtype()], device="meta")
    return Stored(outline, {name: partial(file.get_tensor, name) for name in outline})


def _torch_file(path: Path) -> Stored:
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path}: not a whole checkpoint of torch ({path.stat().st_size} bytes; the list of tensors at its end is "
            "not there). Download it again; one that torch before 1.6 wrote has to be loaded and saved once by torch."
        )
    # Mapped into memory, so that only the tensors that are used are read from the disk.
    found: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    for wrapper in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"{path}: holds something other than named tensors")
    return Stored({name: torch.empty_like(each, device="meta") for name, each in found.items()}, at_hand(found))
