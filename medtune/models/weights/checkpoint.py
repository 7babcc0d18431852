"""Writes checkpoints that hold only the trained weights, and reads them back with a check of every name.

A checkpoint is a safetensors file, or a folder that all ranks wrote together where no rank holds the weights whole
(`medtune/models/weights/divided_files.py`). Readers take both.
"""

import json
import math
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from medtune.data.files import give_usual_permissions
from medtune.data.json_text import json_value
from medtune.models.sharding.unread import convert_when_read, forget_conversions, is_only_rounded, weights_stay_unread
from medtune.models.tuning.quantize import is_quantized
from medtune.models.tuning.starting_weights import NO_STARTS, Starts, take_out
from medtune.models.weights.divided_files import START, Piece, TrainedFolder, held_piece

BASE = "base_samples"
"""The name under which a checkpoint states the samples."""
NUM_SAMPLES = 24
NEAR = 0.02
"""The largest relative difference of two samples of one weight, which may have been rounded to 8 binary digits."""


class Trained(Protocol):
    """An opened checkpoint, a file or a folder."""

    @property
    def about(self) -> dict[str, str]:
        """The facts about the checkpoint that its writer was given."""
        ...

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each trained weight; what PiSSA adapters began with is not among them."""
        ...

    @property
    def starts(self) -> Starts:
        """The beginnings of PiSSA adapters; none if there are no such adapters."""
        ...

    def fill(self, pieces: Mapping[str, Piece]) -> None:
        """Fills pieces of weights with their values, and reads no more than these."""
        ...


def trainable_names(model: nn.Module) -> list[str]:
    """Returns the names of all trainable parameters, in the model's order."""
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def write_trained(
    path: Path, tensors: Mapping[str, Tensor], *, about: Mapping[str, str], starts: Starts = NO_STARTS
) -> None:
    """Writes a checkpoint under a temporary name and renames it at the end, so that nobody reads half a file."""
    tensors = {**tensors, **{START + name: tensor for name, tensor in starts.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            unfinished,
            metadata={"format": "pt", "medtune": json.dumps(dict(about))},
        )
        give_usual_permissions(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def open_trained(path: Path) -> Trained:
    """Opens a checkpoint, a file or a folder."""
    if path.is_dir():
        return TrainedFolder(path)
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        return _TrainedFile(safe_open(path, framework="pt"))
    except SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from error


def read_about(path: Path) -> dict[str, str]:
    """Returns the facts about a checkpoint that its writer was given."""
    return open_trained(path).about


def fitting_facts(path: Path, wanted: Mapping[str, str]) -> dict[str, str]:
    """Returns the facts about a checkpoint of trained weights, which have to be those of a recipe."""
    found = read_about(path)
    if found.get("model", "unknown") != wanted["model"]:
        raise ValueError(
            f"{path}: trained weights of the model {found.get('model', 'unknown')}, but model.name is {wanted['model']}"
        )
    if found.get("lora", "") != wanted["lora"]:
        raise ValueError(
            f"{path}: trained with other adapters (model.tuning.*.lora) than the recipe has: "
            f"{found.get('lora', 'unknown')} there, {wanted['lora']} here"
        )
    # Trained weights are learnt on top of an adapter that was merged before, so that they fit no other.
    if found.get("adapter") != wanted.get("adapter"):
        raise ValueError(
            f"{path}: trained on top of {'another' if 'adapter' in found else 'no'} adapter; set model.adapter as in "
            "the run that wrote it"
        )
    return found


def read_starts(path: Path) -> Starts:
    """Returns the beginnings of PiSSA adapters that a checkpoint holds; none if it has no such adapters."""
    return open_trained(path).starts


def read_trained(path: Path) -> dict[str, Tensor]:
    """Returns all trained weights of a checkpoint in the host's memory, whole."""
    opened = open_trained(path)
    found = {name: torch.empty(shape) for name, shape in opened.shapes.items()}
    opened.fill({name: Piece(tensor.view(-1), 0, tensor.numel()) for name, tensor in found.items()})
    return found


def load_trained(model: nn.Module, path: Path) -> None:
    """Copies the tensors of a checkpoint into the model's trainable parameters.

    The model has its pretrained weights. What PiSSA adapters took out of these is taken out again. Where the model is
    divided among ranks, each reads only its own part. Weights that stay unread are read from this file later.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    opened = open_trained(path)
    found = opened.shapes
    if found.keys() != parameters.keys():
        missing, unknown = sorted(parameters.keys() - found.keys()), sorted(found.keys() - parameters.keys())
        raise ValueError(
            f"{path}: the weights are not those of this recipe's model.tuning: {len(missing)} missing "
            f"{missing[:3]}, {len(unknown)} not known {unknown[:3]}"
        )
    for name, parameter in parameters.items():
        shape = tuple(getattr(parameter, "ds_shape", parameter.shape))
        if found[name] != shape:
            raise ValueError(
                f"{path}: {name} is {found[name]} where the model has {shape}; was it trained with another rank?"
            )
    # An adapted weight may learn as well; it then comes from the checkpoint, and not from what is left of it here.
    take_out(model, opened.starts)
    if weights_stay_unread():
        for name, parameter in parameters.items():
            forget_conversions(parameter)
            convert_when_read(parameter, partial(_read_whole, opened, name))
        return
    apart = {name: p for name, p in parameters.items() if not p.is_contiguous()}
    copies = {name: p.detach().contiguous() for name, p in apart.items()}
    held = {name: held_piece(copies.get(name, p)) for name, p in parameters.items()}
    opened.fill({name: piece for name, piece in held.items() if piece is not None})
    for name, parameter in apart.items():
        parameter.data.copy_(copies[name])


def _read_whole(opened: Trained, name: str, unread: Tensor) -> Tensor:
    values = torch.empty(unread.shape, dtype=torch.float32)
    piece = held_piece(values)
    if piece is not None:
        opened.fill({name: piece})
    return values


class _TrainedFile:
    def __init__(self, file: safe_open) -> None:
        self._file: Any = file

    @property
    def about(self) -> dict[str, str]:
        return dict(json_value((self._file.metadata() or {}).get("medtune", "{}")))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        names = [name for name in set(self._file.keys()) if not name.startswith(START)]
        return {name: tuple(self._file.get_slice(name).get_shape()) for name in names}

    @property
    def starts(self) -> Starts:
        names = [name for name in set(self._file.keys()) if name.startswith(START)]
        return {name.removeprefix(START): self._file.get_tensor(name) for name in names}

    def fill(self, pieces: Mapping[str, Piece]) -> None:
        for name, piece in pieces.items():
            piece.values_N.copy_(self._range(name, piece.first, piece.count))

    def _range(self, name: str, first: int, count: int) -> Tensor:
        part = self._file.get_slice(name)
        shape = part.get_shape()
        if not shape:
            whole: Tensor = self._file.get_tensor(name)
            return whole.view(-1)
        row = math.prod(shape[1:])
        begin, end = first // row, math.ceil((first + count) / row)
        rows_N: Tensor = part[begin:end].reshape(-1)
        return rows_N[first - begin * row :][:count]


def base_samples(model: nn.Module, learnt: Collection[str]) -> str:
    """Returns one value of each of several weights that are not trained, as JSON; "" where there are none.

    Args:
        model: The model. Weights that are divided, held in 4 bits, or computed when they are read are left out.
    """
    frozen = [
        (name.replace(".base_layer", ""), parameter)
        for name, parameter in model.named_parameters()
        if name not in learnt and ".lora_" not in name and parameter.numel() and _can_be_sampled(parameter)
    ]
    chosen = frozen[:: max(1, len(frozen) // NUM_SAMPLES)][:NUM_SAMPLES]
    found = {name: f"{float(p.detach().flatten()[p.numel() // 2]):.5g}" for name, p in chosen}
    return json.dumps(found) if found else ""


def _can_be_sampled(parameter: nn.Parameter) -> bool:
    return not is_quantized(parameter) and is_only_rounded(parameter)


def other_base(model: nn.Module, samples: str) -> str | None:
    """Returns the first sampled weight that is another one in the model, in words; None where all are the same.

    Weights that the model does not have, or holds in 4 bits, are passed over.
    """
    recorded: Mapping[str, str] = json_value(samples)
    for name, parameter in model.named_parameters():
        wanted = recorded.get(name.replace(".base_layer", ""))
        if wanted is None or is_quantized(parameter) or not parameter.numel():
            continue
        found = float(parameter.detach().flatten()[parameter.numel() // 2])
        if abs(found - float(wanted)) > NEAR * max(abs(found), abs(float(wanted))):
            return f"{name} has {found:.5g} where it had {wanted} when the checkpoint was trained"
    return None
