"""A checkpoint as a folder that all ranks write together, each the part of the trained weights that it holds.

It is written where weights are divided among the ranks and too large to be gathered: parts that are trained in full
under FSDP2 or ZeRO-3. `medtune export` makes one model of it.
"""

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from medtune.models.tuning.starting_weights import NO_STARTS, Starts
from medtune.models.weights.divided.files import read_pieces, read_range, write_pieces
from medtune.models.weights.divided.pieces import Piece, by_name, whole_piece
from medtune.models.weights.divided.whole_folders import ABOUT, UNFINISHED, is_whole, take_place, write_last

START = "start."
"""Begins the names of PiSSA's beginnings in a checkpoint."""


class TrainedFolder:
    """An opened checkpoint that is a folder."""

    def __init__(self, path: Path) -> None:
        if not is_whole(path):
            raise FileNotFoundError(f"{path}: no checkpoint, or one that was not written to its end (no {ABOUT})")
        self._path = path
        said = json.loads((path / ABOUT).read_text("utf-8"))
        self._about: dict[str, str] = said["about"]
        self._shapes: dict[str, list[int]] = said["shapes"]

    @property
    def about(self) -> dict[str, str]:
        return dict(self._about)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each trained weight; what PiSSA adapters began with is not among them."""
        return {name: tuple(shape) for name, shape in self._shapes.items() if not name.startswith(START)}

    @property
    def starts(self) -> Starts:
        """The beginnings of PiSSA adapters; none if there are no such adapters."""
        names = [name for name in self._shapes if name.startswith(START)]
        return {
            name.removeprefix(START): read_range(self._path, name).view(torch.Size(self._shapes[name]))
            for name in names
        }

    def fill(self, pieces: Mapping[str, Piece]) -> None:
        """Fills pieces of weights with their values, and reads no more than these."""
        read_pieces(self._path, pieces)


def write_trained_folder(
    path: Path, model: nn.Module, names: Collection[str], *, about: Mapping[str, str], starts: Starts = NO_STARTS
) -> None:
    """Writes a checkpoint as a folder, without gathering any weight; every rank has to call it.

    Args:
        path: The folder; what is there is replaced when the new one is whole.
    """
    learnt = [(name, p) for name, p in model.named_parameters() if name in names]
    begun = {f"{START}{name}": tensor.detach().contiguous() for name, tensor in starts.items()}
    shapes = {name: list(getattr(p, "ds_shape", p.shape)) for name, p in learnt}
    shapes |= {name: list(tensor.shape) for name, tensor in begun.items()}
    unfinished = path.with_name(path.name + UNFINISHED)
    if _is_first():
        shutil.rmtree(unfinished, ignore_errors=True)
    _wait()
    write_pieces(unfinished, {**by_name(learnt), **{name: whole_piece(tensor) for name, tensor in begun.items()}})
    if _is_first():
        write_last(unfinished / ABOUT, json.dumps({"about": dict(about), "shapes": shapes}))
        take_place(unfinished, path)
    _wait()


def _is_first() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def _wait() -> None:
    if dist.is_initialized():
        dist.barrier()
