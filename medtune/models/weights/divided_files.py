"""Writes and reads pieces of tensors as a folder of torch's distributed checkpoint (torch.distributed.checkpoint).

Each rank writes its pieces into a file of its own, without any rank ever holding a whole tensor, and reads the ranges
that it needs from all files. A piece is a range of a tensor's values in their flattened order: FSDP2 divides a tensor
by rows, and ZeRO divides its flattened values, so that one format serves every strategy, and within one any number of
ranks: ZeRO's own states do not go on with another number.

The folder's list of contents, `.metadata`, is a pickle, which torch itself would execute. It is read here by an
unpickler that makes nothing but the plain records of such a list.

Saved states are such folders, and so is a checkpoint of weights that are divided among the ranks and too large to be
gathered: parts that are trained in full under FSDP2 or ZeRO-3. `medtune export` makes one model of it.
"""

import functools
import io
import json
import pickle
import shutil
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint import filesystem as dcp_files
from torch.distributed.checkpoint import metadata as dcp_metadata
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from medtune.data.files import json_file, text_fields
from medtune.models.tuning.starting_weights import NO_STARTS, Starts
from medtune.models.weights.whole_folders import ABOUT, UNFINISHED, is_whole, take_place, write_last

CONTENTS = ".metadata"
"""The file that lists what a folder of torch's distributed checkpoint holds; it is written last."""
_RECORDS = {
    (dcp_metadata.__name__, name): getattr(dcp_metadata, name)
    for name in (
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    )
}  # fmt: skip
START = "start."
"""Begins the names of PiSSA's beginnings in a checkpoint."""
_AGAIN = "Copy the folder of trained weights again."


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a tensor's flattened values."""

    values_N: Tensor  # The values, of one dimension; a view of the memory in which the rank holds them.
    first: int  # The place of the first value in the whole tensor.
    whole: int
    everywhere: bool = False

    @property
    def count(self) -> int:
        return self.values_N.numel()

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        # The protocol of torch's distributed checkpoint: what this rank writes.
        data = TensorWriteData(self._chunk(), TensorProperties.create_from_tensor(self.values_N), _size(self.whole))
        index = MetadataIndex(name, _size(self.first))
        return [WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        # The same protocol: what this rank reads.
        return [self._chunk()]

    def _chunk(self) -> ChunkStorageMetadata:
        return ChunkStorageMetadata(offsets=_size(self.first), sizes=_size(self.count))


def whole_piece(tensor: Tensor) -> Piece:
    """Returns a tensor as one piece, which is a view of it."""
    if not tensor.is_contiguous():
        raise ValueError(f"a tensor of the shape {tuple(tensor.shape)} is not contiguous; its values cannot be viewed")
    return Piece(tensor.detach().view(-1), 0, tensor.numel(), everywhere=True)


def held_piece(tensor: Tensor) -> Piece | None:
    """Returns the piece of a parameter or of an optimizer's tensor that this rank holds; None if it holds none of it.

    An undivided tensor is one piece on every rank. A parameter under ZeRO-3 and a tensor under FSDP2 are pieces.
    """
    if isinstance(tensor, DTensor):
        return _piece_of_rows(tensor)
    partitioned: Any = tensor
    if hasattr(tensor, "ds_tensor"):
        return piece_of_rank(partitioned.ds_tensor.detach(), partitioned.ds_numel)
    return whole_piece(tensor)


def piece_of_rank(padded_N: Tensor, whole: int) -> Piece | None:
    """Returns the piece that a rank holds under ZeRO-3, without the padding behind the last one; None if it is empty.

    Source: deepspeed 0.19.8, `partition_parameters.Init._partition_param`: equal pieces in the order of the ranks.
    """
    first = dist.get_rank() * padded_N.numel()
    count = min(padded_N.numel(), whole - first)
    return None if count <= 0 else Piece(padded_N.view(-1)[:count], first, whole)


def _piece_of_rows(tensor: DTensor) -> Piece | None:
    divided = [place for place in tensor.placements if not place.is_replicate()]
    if any(not isinstance(place, Shard) or place.dim != 0 for place in divided):
        raise ValueError(f"a tensor is divided as {tensor.placements}; only a division by rows can be saved")
    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    local = local_part(tensor).detach()
    if local.numel() == 0:
        return None
    row = local.numel() // shape[0] if len(shape) else 1
    first = (offset[0] if len(shape) else 0) * row
    return Piece(local.view(-1), first, tensor.numel(), everywhere=not divided)


def local_part(tensor: Tensor) -> Tensor:
    """Returns the memory in which this rank holds its part of a parameter: FSDP2's rows, ZeRO-3's share, or all."""
    held: Any = tensor
    if isinstance(tensor, DTensor):
        return held.to_local()  # type: ignore[no-any-return]
    return held.ds_tensor if hasattr(tensor, "ds_tensor") else tensor


def shared_out(pieces: Mapping[str, Piece]) -> dict[str, Piece]:
    """Returns this rank's share of pieces that every rank holds, so that each value is saved once.

    A range is cut from each, so that all ranks write about as much.
    """
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    found = {}
    for name, piece in pieces.items():
        if not piece.everywhere:
            found[name] = piece
            continue
        begin, end = piece.count * rank // world_size, piece.count * (rank + 1) // world_size
        if begin < end:
            found[name] = replace(piece, values_N=piece.values_N[begin:end], first=piece.first + begin)
    return found


def by_name(tensors: Iterable[tuple[str, Tensor]], *, prefix: str = "") -> dict[str, Piece]:
    """Returns the pieces that this rank holds, under the names of the tensors."""
    found = ((f"{prefix}{name}", held_piece(tensor)) for name, tensor in tensors)
    return {name: piece for name, piece in found if piece is not None}


def _size(number: int) -> torch.Size:
    return torch.Size([number])


def write_pieces(folder: Path, pieces: Mapping[str, Piece]) -> None:
    """Writes the pieces of all ranks into a folder; every rank has to call it.

    Args:
        pieces: The pieces that this rank holds. Of a tensor that every rank holds whole, each writes a part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
            save(
                shared_out(pieces),
                storage_writer=_TellingWriter(folder),
                planner=_WritePlan(flatten_state_dict=False, flatten_sharded_tensors=False),
            )
    except CheckpointException as error:
        rank, (first, _) = next(iter(error.failures.items()))
        if not isinstance(first, OSError):
            # Such as that of a lost process that reads media, which comes wherever this one is at that time.
            raise first from error
        raise OSError(first.errno, f"{folder}: rank {rank} could not write its part ({first.strerror})") from error


def read_pieces(folder: Path, pieces: Mapping[str, Piece]) -> None:
    """Fills pieces with their values from a folder; each rank reads what it needs by itself."""
    sizes = saved_sizes(folder)
    for name, piece in pieces.items():
        if sizes.get(name) != piece.whole:
            raise ValueError(f"{folder}: {name} has {sizes.get(name, 'no')} values there and {piece.whole} here")
    if not pieces:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
        load(dict(pieces), storage_reader=_SafeReader(folder), planner=_ReadPlan(), no_dist=True)


def read_whole(folder: Path, name: str) -> Tensor:
    """Returns the flattened values of a tensor, in the type in which they were saved."""
    found = _listed(folder).state_dict_metadata.get(name)
    if not isinstance(found, TensorStorageMetadata):
        raise ValueError(f"{folder}: no tensor {name} is there")
    whole = int(found.size[0])
    values_N = torch.empty(whole, dtype=found.properties.dtype)
    read_pieces(folder, {name: Piece(values_N, 0, whole)})
    return values_N


def saved_types(folder: Path) -> dict[str, torch.dtype]:
    """Returns the type in which each tensor of a folder was saved."""
    return {name: each.properties.dtype for name, each in _listed(folder).state_dict_metadata.items()}  # type: ignore[union-attr]


def saved_sizes(folder: Path) -> dict[str, int]:
    """Returns the number of values of each tensor in a folder."""
    return {name: int(each.size[0]) for name, each in _listed(folder).state_dict_metadata.items()}  # type: ignore[union-attr]


class _TellingWriter(dcp_files.FileSystemWriter):
    """A writer that raises the system's error where torch raises one of its own after it."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        try:
            return super().write_data(plan, planner)
        except Exception as error:
            # It is told to the other ranks, to which an error comes without those behind it.
            raise _first_cause(error) from error


def _first_cause(error: Exception) -> BaseException:
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) or str(at).startswith("DataLoader worker"):
            return at
        at = at.__cause__ or at.__context__
    return error


class _WritePlan(DefaultSavePlanner):
    def lookup_object(self, index: MetadataIndex) -> Tensor:
        piece: Piece = self.state_dict[index.fqn]
        return piece.values_N


class _ReadPlan(DefaultLoadPlanner):
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.flatten_state_dict = False
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        piece: Piece = self.state_dict[index.fqn]
        return piece.values_N

    def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
        raise ValueError(f"{read_item.dest_index.fqn} is no tensor")


class _SafeReader(dcp_files.FileSystemReader):
    def read_metadata(self, *arguments: Any, **keywords: Any) -> Metadata:
        found = _listed(Path(self.path))
        found.storage_meta = dcp_metadata.StorageMeta(load_id=self.load_id)
        return found


_RECORDS[dcp_files.__name__, "_StorageInfo"] = dcp_files._StorageInfo
_RECORDS["torch", "Size"] = torch.Size
_RECORDS["torch.serialization", "_get_layout"] = torch.serialization._get_layout


class _Listing(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "pathlib" and name.endswith("Path"):
            # Where the folder was when it was written, which does not matter.
            return lambda *parts: None
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        if (module, name) in _RECORDS:
            return _RECORDS[module, name]
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no list of tensors needs")


def _listed(folder: Path) -> Metadata:
    path = folder / CONTENTS
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: not there, or not written to its end (no {CONTENTS})")
    return _read_list(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _read_list(path: Path, changed_ns: int) -> Metadata:
    try:
        found = _Listing(io.BytesIO(path.read_bytes())).load()
    except Exception as error:
        # Damaged pickles raise errors of many kinds.
        raise ValueError(f"{path} is damaged or no list of tensors, and was not loaded: {error}") from error
    if not isinstance(found, Metadata):
        raise ValueError(f"{path} is no list of tensors")
    for name, each in found.state_dict_metadata.items():
        if not isinstance(each, TensorStorageMetadata) or len(each.size) != 1:
            raise ValueError(f"{path}: {name} is not the flattened values of a tensor")
    for index, where in (found.storage_data or {}).items():
        if where.relative_path != Path(where.relative_path).name or where.transform_descriptors:
            raise ValueError(f"{path}: {index.fqn} lies in {where.relative_path}, outside of the folder")
    return found


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


class TrainedFolder:
    def __init__(self, path: Path) -> None:
        if not is_whole(path):
            raise FileNotFoundError(f"{path}: no checkpoint, or one that was not written to its end (no {ABOUT})")
        self._path = path
        said = json_file(path / ABOUT, dict, "the facts of trained weights", todo=_AGAIN)
        self._about = text_fields(path / ABOUT, said.get("about"), field="about", todo=_AGAIN)
        shapes = said.get("shapes")
        if not isinstance(shapes, dict) or not all(map(_is_shape, shapes.values())):
            raise ValueError(f"{path / ABOUT}, field shapes: wanted a shape for each name. {_AGAIN}")
        self._shapes: dict[str, list[int]] = shapes

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
            name.removeprefix(START): read_whole(self._path, name).view(torch.Size(self._shapes[name]))
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
