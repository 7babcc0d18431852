"""Reads the tensors of a published file without running its code, and loads them into a model by rules for their names.

The failure that users of these models report most often is that a part of the weights is silently not loaded. A name
without a rule, a weight without a tensor and a differing shape are therefore errors, which list the names. Names, types
and shapes are read first, from the headers of the files; the values of a tensor are read when they are asked for, one
tensor after another.
"""

import pickle
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from medtune.models.sharding.unread import rounded_when_read, weights_stay_unread

Deferred = Mapping[str, Callable[[], Tensor]]
"""Tensors by name, each as a function that reads or computes it."""

_WRAPPERS = ("state_dict", "model", "module")
_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Stored:
    outline: dict[str, Tensor]  # The tensors by name without values, on the meta device: their types and shapes.
    tensors: Deferred  # The same tensors, each read from its file when it is called.


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the tensors whose names match a pattern."""

    pattern: str  # Regular expression that the whole name has to match.
    # Names of the weights here, as templates for `re.Match.expand`. With several targets, the tensor is cut along its
    # first axis into equal parts, one for each.
    targets: tuple[str, ...]
    # Place of this tensor where the tensors of several rules are joined along the first axis into one target.
    part: int = 0


@dataclass(frozen=True, slots=True)
class KeyMap:
    """The rules by which one kind of published file is read."""

    checkpoint: str  # Name of the file in words, for messages.
    rules: tuple[Rule, ...]  # The rules; the first that matches a name is applied.
    left_out: tuple[str, ...] = ()  # Patterns of the names that the file may hold and that are not loaded.
    # Patterns of the names of tensors that are not loaded because they hold only zeros; other values in them are an
    # error.
    zeros: tuple[str, ...] = ()


def rename(prefix: str, target: str) -> Rule:
    """Returns the rule that replaces a literal prefix of a name by `target`."""
    return Rule(re.escape(prefix) + r"(.+)", (target + r"\1",))


def translate(tensors: Deferred, key_map: KeyMap, *, where: str) -> dict[str, Callable[[], Tensor]]:
    """Returns the tensors under medtune's names, cut and joined by the rules when they are asked for."""
    parts: dict[str, dict[int, Callable[[], Tensor]]] = {}
    unknown = []
    for name, read in tensors.items():
        if _matches(name, key_map.left_out):
            continue
        if _matches(name, key_map.zeros):
            tensor = read()
            if not tensor.is_meta and bool(tensor.count_nonzero()):
                raise ValueError(f"{where}: {name} holds values where {key_map.checkpoint} has zeros; another release?")
            continue
        rule, match = next(((r, m) for r in key_map.rules if (m := re.fullmatch(r.pattern, name))), (None, None))
        if rule is None or match is None:
            unknown.append(name)
            continue
        of = len(rule.targets)
        for number, target in enumerate(rule.targets):
            piece = read if of == 1 else partial(_chunk, read, number, of)
            parts.setdefault(match.expand(target), {})[rule.part] = piece
    if unknown:
        raise ValueError(f"{where}: not {key_map.checkpoint}; {_listed('not known', unknown)}")
    return {
        target: next(iter(by_part.values())) if len(by_part) == 1 else partial(_joined, by_part)
        for target, by_part in parts.items()
    }


def _chunk(read: Callable[[], Tensor], number: int, of: int) -> Tensor:
    return read().chunk(of)[number]


def _joined(by_part: Mapping[int, Callable[[], Tensor]]) -> Tensor:
    return torch.cat([by_part[part]() for part in sorted(by_part)])


def check_published(module: nn.Module, outline: Mapping[str, Tensor], key_map: KeyMap, *, where: str) -> None:
    """Refuses a published file whose tensors do not fit a module, by their names and shapes alone.

    Args:
        module: The module, which may be on the meta device.
        outline: The tensors under their published names, which may be on the meta device.
    """
    for _ in _fitting(module, at_hand(outline), key_map, where=where):
        pass


def load_published(
    module: nn.Module,
    tensors: Deferred,
    key_map: KeyMap,
    *,
    where: str,
    dtypes: Mapping[str, torch.dtype] | None = None,
) -> None:
    """Fills all weights and buffers of a module from the tensors of a published file.

    A module without weights (on the meta device) takes over the tensors themselves. Tensors are read and converted one
    after another, so that only one of them at a time is in memory in the type of the file. Where weights stay unread
    (`models.sharding.unread`), the module takes over the tensors of the file, to be converted when they are read.

    Args:
        dtypes: Type of the floating-point numbers in each of the module's children that is named; the others keep the
            type of the file. None names no child.
    """
    wanted = dtypes or {}
    found = {}
    takes_over = any(tensor.is_meta for tensor in module.state_dict().values())
    later = {name for name, _ in module.named_parameters()} if takes_over and weights_stay_unread() else set()
    for name, tensor in _fitting(module, tensors, key_map, where=where):
        dtype = None if name in later else wanted.get(name.partition(".")[0])
        found[name] = tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor
    module.load_state_dict(found, assign=takes_over)
    for name, parameter in module.named_parameters():
        if name in later and (dtype := wanted.get(name.partition(".")[0])) is not None:
            rounded_when_read(parameter, dtype)


def _fitting(module: nn.Module, tensors: Deferred, key_map: KeyMap, *, where: str) -> Iterator[tuple[str, Tensor]]:
    found, own = translate(tensors, key_map, where=where), module.state_dict()
    if own.keys() != found.keys():
        missing, surplus = own.keys() - found.keys(), found.keys() - own.keys()
        said = [_listed(word, names) for word, names in (("missing", missing), ("left over", surplus)) if names]
        raise ValueError(f"{where}: does not fit as {key_map.checkpoint}; {'; '.join(said)}")
    for name, read in found.items():
        tensor, wanted = read(), own[name].shape
        if tensor.shape != wanted:
            raise ValueError(f"{where}: {name} is {tuple(tensor.shape)} in the file and {tuple(wanted)} in the model")
        yield name, tensor


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _listed(word: str, names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f", and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return f"{len(ordered)} {word}: {', '.join(ordered[:_SHOWN])}{more}"
