"""Compares every tensor of a checkpoint's files with the tensor in the model, one at a time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

from medtune.models.contract import Model
from medtune.models.proof.checks import Check, Finding, checked
from medtune.models.tuning.quantize import is_quantized
from medtune.models.vlm import LANGUAGE_FOLDER, VISION_PROJECTOR_FILE
from medtune.models.weights.checkpoint import BASE, fitting_facts, other_base
from medtune.models.weights.export import is_exported

Published = Callable[[Path], Mapping[str, Tensor] | None]
"""Reads the tensors of a folder that its authors publish, under the model's names."""


class FileTensor(NamedTuple):
    name: str
    tensor: Tensor
    source: str


def weights_check(
    model: Model, folder: Path | None, *, read_as: torch.dtype, published: Published | None = None
) -> Check:
    """Returns the check that the model in memory has the values of its files, under the right names.

    Besides the model, one tensor of the files is in memory at a time; of a release with names of its own, all of them.

    Args:
        published: Reads a release whose names transformers does not know; None for checkpoints of transformers.
    """
    return checked("weights", lambda: _compared(model, folder, read_as, published))


def _compared(model: Model, folder: Path | None, read_as: torch.dtype, published: Published | None) -> Finding:
    if folder is None:
        return None, "the weights were not read from a checkpoint's folder"
    held = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    seen: set[int] = set()
    compared = unread = 0
    found = None if published is None or is_exported(str(folder)) else published(folder)
    for name, tensor, source in held_tensors(model, folder) if found is None else _released(found):
        mine = held.get(name)
        if mine is None or is_quantized(mine):
            unread += 1
            continue
        seen.add(mine.data_ptr())
        if difference := _difference(mine, tensor, read_as):
            return False, f"{name} ({source} in {folder.name}): {difference}"
        compared += 1
    if compared == 0:
        return None, f"{folder}: no safetensors files whose names plain transformers translates"
    parameters = dict(model.named_parameters())
    never = [name for name, p in parameters.items() if p.data_ptr() not in seen and not is_quantized(p)]
    if never:
        return False, f"{len(never)} weights of the model are in no file, for instance {never[0]}"
    more = f"; {unread} tensors are held in 4 bits or are not used" if unread else ""
    return True, f"{compared} tensors of {folder.name} equal those in memory bit by bit{more}"


def _released(found: Mapping[str, Tensor]) -> Iterator[FileTensor]:
    for name, tensor in found.items():
        yield FileTensor(name, tensor, name)


def held_tensors(model: Model, folder: Path) -> Iterator[FileTensor]:
    """Yields the tensors of a checkpoint of transformers, or of an exported folder, under the model's names."""
    if (folder / VISION_PROJECTOR_FILE).is_file():
        for name, tensor in _tensors([folder / VISION_PROJECTOR_FILE]):
            yield FileTensor(name, tensor, name)
        for name, tensor in _tensors(sorted((folder / LANGUAGE_FOLDER).glob("*.safetensors"))):
            yield FileTensor(f"language.{name}", tensor, name)
        return
    prefix = _prefix(model)
    for held in _translated(model.of_transformers, sorted(folder.glob("*.safetensors"))):
        yield held._replace(name=prefix + held.name)


def _prefix(model: Model) -> str:
    whole = model.of_transformers
    return next(f"{name}." for name, module in model.named_modules() if module is whole)


def _translated(whole: PreTrainedModel, paths: list[Path]) -> Iterator[FileTensor]:
    """Yields the tensors of files as transformers' rules name and put them together, one at a time.

    Of the experts of a layer, which files hold one by one, transformers makes a single tensor.
    """
    rules = get_model_conversion_mapping(whole)
    renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
    converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
    made_by = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    own = whole.state_dict()
    of_name: dict[str, list[tuple[str, str | None]]] = {}
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
        place = {source: file for file in files for source in file.keys()}  # noqa: SIM118 - no mapping
        for source in sorted(place, key=dot_natural_key):
            name, pattern = rename_source_key(source, renamings, converters, whole.base_model_prefix, own)
            if name not in own and source in own:
                name, pattern = source, None
            of_name.setdefault(name, []).append((source, pattern))
        for name, sources in of_name.items():
            first, pattern = sources[0]
            if pattern is None:
                yield FileTensor(name, place[first].get_tensor(first), first)
                continue
            converter = deepcopy(made_by[pattern])
            for source, each in sources:
                assert each is not None
                converter.add_tensor(name, source, each, place[source].get_tensor(source))
            for made, tensor in converter.convert(name, model=whole, config=whole.config).items():
                yield FileTensor(made, tensor, first)


def _tensors(paths: list[Path]) -> Iterator[tuple[str, Tensor]]:
    for path in paths:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            for name in names:
                yield name, file.get_tensor(name)


def _difference(mine: Tensor, its: Tensor, read_as: torch.dtype) -> str | None:
    if its.is_floating_point():
        its = its.to(read_as).to(mine.dtype)
    here = mine.detach().cpu()
    if here.shape == its.shape and torch.equal(here, its):
        return None
    if its.dim() == 2 and its.T.shape == here.shape and torch.equal(here, its.T):
        return "it is transposed in memory"
    if here.shape != its.shape:
        return f"its shape is {tuple(here.shape)} in memory and {tuple(its.shape)} in the file"
    apart = (here.double() - its.double()).abs()
    place = int(apart.argmax())
    return (
        f"{int((apart > 0).sum())} of {apart.numel()} values differ, at most {float(here.flatten()[place]):.6g} in "
        f"memory where the file has {float(its.flatten()[place]):.6g}"
    )


def adapter_check(model: Model, checkpoint: Path | None, wanted: Mapping[str, str]) -> Check:
    """Returns the check that trained weights belong to the model that they are laid over, and to the recipe's scale."""
    return checked("adapter", lambda: _belongs(model, checkpoint, wanted))


def _belongs(model: Model, checkpoint: Path | None, wanted: Mapping[str, str]) -> Finding:
    if checkpoint is None:
        return None, "the recipe starts from no trained weights (model.checkpoint)"
    try:
        found = fitting_facts(checkpoint, wanted)
    except ValueError as error:
        return False, str(error)
    if not found.get(BASE):
        return None, f"{checkpoint.name} does not say which weights it was trained over; it is of an earlier version"
    if other := other_base(model, found[BASE]):
        return False, f"{checkpoint.name} was trained over other weights: {other}"
    return True, f"{checkpoint.name} was trained over these weights, with the recipe's scales"
