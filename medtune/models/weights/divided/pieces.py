"""The piece of a tensor that a rank holds, as a range of the tensor's values in their flattened order.

FSDP2 divides a tensor by rows, and ZeRO divides its flattened values. Both are ranges of the flattened values, so that
one format serves every strategy and any number of ranks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a tensor's flattened values."""

    values_N: Tensor  # The values, of one dimension; a view of the memory in which the rank holds them.
    first: int  # The place of the first value in the whole tensor.
    whole: int
    everywhere: bool = False

    @property
    def count(self) -> int:
        """The number of values."""
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
