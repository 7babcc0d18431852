"""Writes and reads pieces of tensors as a folder of torch's distributed checkpoint (torch.distributed.checkpoint).

Each rank writes its pieces into a file of its own, without any rank ever holding a whole tensor, and reads the ranges
that it needs from all files. A tensor is saved by its flattened values; whoever reads it knows its shape.

The folder's list of contents, `.metadata`, is a pickle, which torch itself would execute. It is read here by an
unpickler that makes nothing but the plain records of such a list.
"""

import errno
import functools
import io
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import filesystem as dcp_files
from torch.distributed.checkpoint import metadata as dcp_metadata
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from medtune.models.weights.divided.pieces import Piece, shared_out

CONTENTS = ".metadata"
"""The file that lists what a folder of torch's distributed checkpoint holds; it is written last."""


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
                storage_writer=dcp_files.FileSystemWriter(folder),
                planner=_WritePlan(flatten_state_dict=False, flatten_sharded_tensors=False),
            )
    except CheckpointException as error:
        rank, (first, _) = next(iter(error.failures.items()))
        raise OSError(errno.EIO, f"{folder}: rank {rank} could not write its part ({first})") from error


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


def read_range(folder: Path, name: str, first: int = 0, count: int | None = None) -> Tensor:
    """Returns some of the flattened values of a tensor, in the type in which they were saved."""
    found = _listed(folder).state_dict_metadata.get(name)
    if not isinstance(found, TensorStorageMetadata):
        raise ValueError(f"{folder}: no tensor {name} is there")
    whole = int(found.size[0])
    values_N = torch.empty(whole - first if count is None else count, dtype=found.properties.dtype)
    read_pieces(folder, {name: Piece(values_N, first, whole)})
    return values_N


def saved_types(folder: Path) -> dict[str, torch.dtype]:
    """Returns the type in which each tensor of a folder was saved."""
    return {name: each.properties.dtype for name, each in _listed(folder).state_dict_metadata.items()}  # type: ignore[union-attr]


def saved_sizes(folder: Path) -> dict[str, int]:
    """Returns the number of values of each tensor in a folder."""
    return {name: int(each.size[0]) for name, each in _listed(folder).state_dict_metadata.items()}  # type: ignore[union-attr]


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


_RECORDS = {
    (dcp_metadata.__name__, name): getattr(dcp_metadata, name)
    for name in (
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    )
}  # fmt: skip
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
