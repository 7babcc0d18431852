"""Writes checkpoints that hold only the trained weights, and reads them back with a check of every name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from medtune.models.tuning.starting_weights import NO_STARTS, Starts, take_out

START = "start."
"""Begins the names of PiSSA's beginnings in a checkpoint."""


def trainable_names(model: nn.Module) -> list[str]:
    """Returns the names of all trainable parameters, in the model's order."""
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def write_trained(
    path: Path, tensors: Mapping[str, Tensor], *, about: Mapping[str, str], starts: Starts = NO_STARTS
) -> None:
    """Writes a checkpoint under a temporary name and renames it at the end, so that nobody reads half a file.

    Args:
        path: The file.
        tensors: The trained weights by name.
        about: Facts about the checkpoint, which `read_about` returns.
        starts: The beginnings of PiSSA adapters, which `read_starts` returns.
    """
    tensors = {**tensors, **{START + name: tensor for name, tensor in starts.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            unfinished,
            metadata={"format": "pt", "medtune": json.dumps(dict(about))},
        )
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_about(path: Path) -> dict[str, str]:
    """Returns the facts about a checkpoint that `write_trained` was given.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no complete safetensors file.
    """
    with _opened(path) as file:
        return dict(json.loads((file.metadata() or {}).get("medtune", "{}")))


def read_starts(path: Path) -> Starts:
    """Returns the beginnings of PiSSA adapters that a checkpoint holds; none if it has no such adapters.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no complete safetensors file.
    """
    with _opened(path) as file:
        return {name.removeprefix(START): file.get_tensor(name) for name in set(file.keys()) if name.startswith(START)}


def load_trained(model: nn.Module, path: Path) -> None:
    """Copies the tensors of a checkpoint into the model's trainable parameters.

    The model has its pretrained weights. What PiSSA adapters took out of these is taken out again.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no complete safetensors file, a name is missing or not known, or a shape differs.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    values: dict[str, Tensor] = {}
    with _opened(path) as file:
        found = {name for name in set(file.keys()) if not name.startswith(START)}
        if found != parameters.keys():
            missing, unknown = sorted(parameters.keys() - found), sorted(found - parameters.keys())
            raise ValueError(
                f"{path}: the weights are not those of this recipe's model.tuning: {len(missing)} missing "
                f"{missing[:3]}, {len(unknown)} not known {unknown[:3]}"
            )
        for name, parameter in parameters.items():
            value = file.get_tensor(name)
            if value.shape != parameter.shape:
                raise ValueError(
                    f"{path}: {name} is {tuple(value.shape)} where the model has {tuple(parameter.shape)}; "
                    "was it trained with another rank?"
                )
            values[name] = value
    # An adapted weight may learn as well; it then comes from the checkpoint, and not from what is left of it here.
    take_out(model, read_starts(path))
    for name, value in values.items():
        parameters[name].data.copy_(value)


def _opened(path: Path) -> safe_open:
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from error
